# The images of docker-compose.yml: targets etcd, prometheus and baton. All run as one user without rights, whose data
# is in /data. Stages stand in this order because builders without BuildKit build all that stand before a target.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS base
RUN groupadd --gid 5690 baton \
 && useradd --uid 5690 --gid baton --no-create-home --home-dir /data --shell /usr/sbin/nologin baton \
 && install -d -m 700 -o baton -g baton /data

FROM base AS etcd
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends etcd-server etcd-client \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
ENV ETCDCTL_API=3
USER baton
EXPOSE 2379 2380
CMD ["etcd", "--data-dir", "/data"]

# Tables of time zones of past years are two thirds of its size; its pages do without.
FROM base AS prometheus
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends prometheus \
 && rm -rf /usr/share/javascript/moment-timezone/data /var/lib/apt/lists/* /var/cache/apt/*.bin
USER baton
EXPOSE 9090
CMD ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/data"]

FROM base AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    gcc libc6-dev cmake ninja-build pkg-config protobuf-c-compiler protobuf-compiler \
    libgrpc-dev libprotobuf-c-dev libcurl4-openssl-dev libnghttp2-dev libuv1-dev libssl-dev liblmdb-dev \
    libmicrohttpd-dev libjson-c-dev uthash-dev \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
WORKDIR /src
COPY . .
RUN cmake -G Ninja -S . -B /build -DCMAKE_BUILD_TYPE=Release -DBATON_TESTS=OFF --log-level=WARNING \
 && ninja -C /build baton-meta baton-proxy batonctl \
 && install -s -D -t /out /build/bin/baton-meta /build/bin/baton-proxy /build/bin/batonctl

# curl asks the health checks' question; it costs 0.5 MB, since the library is there for baton-meta.
FROM base AS baton
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    libgrpc29 libprotobuf-c1 libcurl4 libnghttp2-14 libuv1 libssl3 liblmdb0 libmicrohttpd12 libjson-c5 curl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY --from=build /out/ /usr/local/bin/
# A library that is missing above fails here.
RUN baton-meta --version && baton-proxy --version && batonctl --version
USER baton
EXPOSE 5680 5681 5690 5691
STOPSIGNAL SIGTERM
CMD ["baton-meta", "--help"]
