# What runs in every instance of the drivers for containers: agent, display, Chromium, tools; and the sandboxes of apps. script/image builds it.
FROM debian:bookworm-slim

COPY packages.txt /tmp/packages
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(cat /tmp/packages) \
 && fc-cache -sf && mkdir -p /usr/share/cob && cp -r /var/cache/fontconfig /usr/share/cob/fonts \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /usr/share/doc /usr/share/man /usr/share/locale /tmp/*

# The user that programs written for the original know (uid 1000, /home/kernel). /etc/localtime is changed by the agent; nothing here identifies a machine.
# /var is empty in an instance, so the list of fonts lies elsewhere.
COPY etc/ /etc/
RUN useradd --uid 1000 --user-group --home-dir /home/kernel --shell /bin/bash kernel \
 && mkdir -p /home/kernel /app /cache /data /opt/local /etc/chromium/policies && chown kernel:kernel /home/kernel \
 && ln -sfn /run/cob/localtime /etc/localtime \
 && printf '00000000000000000000000000000000\n' >/etc/machine-id \
 && find / -xdev -perm /6000 -type f -exec chmod a-s {} +

COPY node /opt/node/node
COPY cob/ /opt/cob/
COPY cache/ /opt/cob-cache/
# Whoever may not read a program's file may not look into its processes either (src/instances/local/loader.ts): the agent runs by this loader.
RUN install -m 0111 "$(ldd /opt/node/node | sed -n 's#^[[:space:]]*\(/lib.*/ld-[^ ]*\).*#\1#p')" /opt/cob-cache/loader

USER 1000:1000
WORKDIR /home/kernel
ENTRYPOINT ["/usr/bin/tini", "-g", "--", "/opt/cob/images/guest"]
