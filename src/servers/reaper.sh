# Runs beside the owner of a store folder ($1) in a process group of its own. Its standard input
# is a pipe that the owner holds open and never writes to: the end of it means that the owner is
# gone, by whatever death. Then the servers are stopped and, unless $2 says "keep", the folder is
# removed.
folder=$1
keep=$2
trap '' HUP INT TERM
cat >/dev/null

# A process is ours while it lives in the folder: a recycled pid does not, nor does a zombie.
lives() {
    if [ -d /proc/self ]; then
        case "$(readlink "/proc/$1/cwd" 2>/dev/null)" in
        "$folder" | "$folder"/*) return 0 ;;
        *) return 1 ;;
        esac
    fi
    kill -0 "$1" 2>/dev/null
}

# Whoever works beside the stores goes before them.
for place in /proc/[0-9]*/cwd; do
    case "$(readlink "$place" 2>/dev/null)" in
    "$folder"/work | "$folder"/work/*)
        pid=${place#/proc/}
        kill -s KILL "${pid%/cwd}" 2>/dev/null
        ;;
    esac
done

# What is kept is stopped in good order, and has longer for it; what goes is not worth the wait.
if [ "$keep" = keep ]; then
    stop_postgres=INT stop_redis=TERM patience=600
else
    stop_postgres=QUIT stop_redis=KILL patience=60
fi
postgres=$(sed -n 1p "$folder/postgres/postmaster.pid" 2>/dev/null)
redis=$(sed -n 1p "$folder/redis/redis.pid" 2>/dev/null)
[ -n "$postgres" ] && lives "$postgres" && kill -s "$stop_postgres" "$postgres" 2>/dev/null
[ -n "$redis" ] && lives "$redis" && kill -s "$stop_redis" "$redis" 2>/dev/null
for pid in $postgres $redis; do
    tries=0
    while lives "$pid"; do
        tries=$((tries + 1))
        [ "$tries" -eq "$patience" ] && kill -s KILL "$pid" 2>/dev/null
        [ "$tries" -gt $((patience + 40)) ] && break
        sleep 0.05
    done
done
[ "$keep" = keep ] || rm -rf "$folder"
