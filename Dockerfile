# syntax=docker/dockerfile:1
# One image for every run mode: `docker run IMAGE [SUBCOMMAND]`.

# Keep in step with rust-toolchain.toml.
ARG RUST_VERSION=1.95.0

FROM rust:${RUST_VERSION}-slim-bookworm AS builder
WORKDIR /src
COPY . .
# A static binary, so that the runtime needs no distribution. With an explicit
# target, RUSTFLAGS leaves build scripts and procedural macros alone, which
# cannot be static. The cache mounts keep dependencies compiled between builds.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    set -eu; \
    target="$(rustc --print host-tuple)"; \
    RUSTFLAGS="-C target-feature=+crt-static" \
        cargo build --release --locked --bin trigger-manager --target "$target"; \
    install -D "target/$target/release/trigger-manager" /rootfs/usr/bin/trigger-manager; \
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/ca-certificates.crt; \
    install -d -m 700 /volume/data

FROM scratch
COPY --from=builder /rootfs /
COPY --from=builder --chown=65532:65532 /volume /
ENV PFY_HTTP_ADDR=0.0.0.0:8080 \
    PFY_CRON_METRICS_HOST=0.0.0.0 \
    PFY_DATABASE_URL=sqlite:///data/trigger-manager.db?mode=rwc \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
USER 65532:65532
# SQLite's temporary files go to the working folder: there is no /tmp.
WORKDIR /data
VOLUME /data
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/usr/bin/trigger-manager", "check"]
ENTRYPOINT ["/usr/bin/trigger-manager"]
