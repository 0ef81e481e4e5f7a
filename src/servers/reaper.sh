# Runs beside the owner of a store folder ($1) in a process group of its own. Its standard input
# is a pipe that the owner holds open and never writes to: the end of it means that the owner is
# gone, by whatever death. Then the servers are stopped and the folder is removed.
folder=$1
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

# SIGQUIT is Postgres' immediate shutdown; Redis has nothing to save and is killed.
postgres=$(sed -n 1p "$folder/data/postmaster.pid" 2>/dev/null)
redis=$(sed -n 1p "$folder/redis.pid" 2>/dev/null)
[ -n "$postgres" ] && lives "$postgres" && kill -s QUIT "$postgres" 2>/dev/null
[ -n "$redis" ] && lives "$redis" && kill -s KILL "$redis" 2>/dev/null
for pid in $postgres $redis; do
    tries=0
    while lives "$pid"; do
        tries=$((tries + 1))
        [ "$tries" -eq 60 ] && kill -s KILL "$pid" 2>/dev/null
        [ "$tries" -gt 100 ] && break
        sleep 0.05
    done
done
rm -rf "$folder"
