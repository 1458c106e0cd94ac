# syntax=docker/dockerfile:1

# One static binary in an empty image.
#
#   docker build -t ghcr.io/ipgc/ipgc:0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 -t ghcr.io/ipgc/ipgc:0.1.0 --push .
#
# Each platform compiles on itself (buildx emulates those that the builder is not), so no
# cross-linker is needed.

ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim-bookworm AS build

# musl-gcc, for the C and assembly of ring.
RUN apt-get update \
 && apt-get install -y --no-install-recommends musl-tools \
 && rm -rf /var/lib/apt/lists/*

ARG TARGETARCH
RUN case "${TARGETARCH}" in \
      amd64) target=x86_64-unknown-linux-musl ;; \
      arm64) target=aarch64-unknown-linux-musl ;; \
      *) echo "no build for TARGETARCH=${TARGETARCH}" >&2; exit 1 ;; \
    esac \
 && echo "${target}" > /target-triple \
 && rustup target add "${target}"

WORKDIR /src
COPY . .

# The caches outlive the layer, the binary must not lie in one. The target directory is locked,
# since the platforms of one build share it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    target="$(cat /target-triple)" \
 && cargo build --release --locked --target "${target}" -p ipgc \
 && cp "target/${target}/release/ipgc" /ipgc

# The API server's CA comes with the service account's token; the image needs no files of its own.
FROM scratch
COPY --from=build /ipgc /ipgc
# No HEALTHCHECK (CKV_DOCKER_2): Kubernetes has probes of its own, in the Deployment.
# A number: there is no /etc/passwd to look a name up in, and runAsNonRoot wants one.
USER 65532:65532
ENTRYPOINT ["/ipgc"]
CMD ["run"]
