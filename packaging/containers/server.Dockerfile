# A server: docker build -f packaging/containers/server.Dockerfile -t soulsgui-server .
FROM python:3.12-slim
# Where torch comes from; for a GPU: --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint packaging/constraints.txt --extra-index-url ${TORCH_INDEX} \
        '.[train,server]' \
    && useradd --create-home --uid 1000 soulsgui \
    && install -d -o soulsgui -m 700 /config /data
USER soulsgui
WORKDIR /home/soulsgui
VOLUME ["/config", "/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=20s --start-period=60s \
    CMD ["soulsgui", "status", "--json", "--config-dir", "/config", "--data-dir", "/data"]
ENTRYPOINT ["soulsgui"]
CMD ["serve", "--idle", "--config-dir", "/config", "--data-dir", "/data"]
