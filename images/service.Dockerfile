# The service: the control plane, for the drivers whose instances are containers (docs/docker.md). script/image builds it.
FROM debian:bookworm-slim

COPY packages.txt /tmp/packages
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(cat /tmp/packages) \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/share/doc /usr/share/man /usr/share/locale /tmp/* \
 && find / -xdev -perm /6000 -type f -exec chmod a-s {} +

# A new volume at /data belongs to this user, as the folder here does.
RUN useradd --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin cob \
 && install -d -o cob -g cob -m 0700 /data \
 && printf '#!/bin/sh\nexec /opt/node/node --max-semi-space-size=8 --disable-warning=ExperimentalWarning /opt/cob/src/cli/main.ts "$@"\n' >/usr/local/bin/cob \
 && chmod 0755 /usr/local/bin/cob

COPY node /opt/node/node
COPY cob/ /opt/cob/

ENV COB_HOST=0.0.0.0 COB_PORT=2627 COB_DATA_DIR=/data COB_GREETING=0 HOME=/data
USER 10001:10001
WORKDIR /data
EXPOSE 2627
STOPSIGNAL SIGTERM
# Debian's slim image has neither curl nor wget.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/opt/node/node", "-e", "fetch(`http://127.0.0.1:${process.env.COB_PORT}/health`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/cob"]
CMD ["serve"]
