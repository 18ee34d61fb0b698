# A client without torch: docker build -f packaging/containers/client.Dockerfile -t soulsgui-client .
FROM python:3.12-slim
# What its environment needs, such as "gymnasium[box2d]"
ARG PACKAGES=""
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --constraint packaging/constraints.txt . ${PACKAGES} \
    && useradd --create-home --uid 1000 soulsgui \
    && install -d -o soulsgui -m 700 /config /data
USER soulsgui
WORKDIR /home/soulsgui
VOLUME ["/config", "/data"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["soulsgui"]
CMD ["client", "/invitation.soulsgui", "--trust", "--config-dir", "/config", "--data-dir", "/data"]
