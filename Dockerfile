# Not built here: written with care, but this repository's tests do not build images.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Without the lab: an image that serves needs no crowd, no demo and no private stores.
RUN cargo build --locked --release --no-default-features --bin stanchion && mkdir /empty

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/stanchion /usr/local/bin/stanchion
COPY --from=build /src/config/stanchion.toml /etc/stanchion/stanchion.toml
# For the keys; a volume mounted here takes over the owner.
COPY --from=build --chown=nonroot:nonroot /empty /var/lib/stanchion
# Public, core, ops. Only the first belongs in front of shoppers.
EXPOSE 8080 7070 9090
# Starts and stops with the process: SIGTERM drains, a second one stops at once.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["/usr/local/bin/stanchion", "healthcheck", "http://127.0.0.1:9090/readyz"]
ENTRYPOINT ["/usr/local/bin/stanchion"]
CMD ["serve", "-c", "/etc/stanchion/stanchion.toml"]
