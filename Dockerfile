# One image for all of ours: mcc, drone, Flower, proxy and migrations differ by command only (see docker-compose.yml).

ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

RUN python -m venv /opt/mcc && python -m venv /opt/build
COPY requirements.lock requirements-build.lock ./
RUN /opt/mcc/bin/pip install --require-hashes --requirement requirements.lock \
    && /opt/build/bin/pip install --require-hashes --requirement requirements-build.lock

COPY pyproject.toml README.md ./
COPY mcc mcc
COPY drone drone
COPY prompts prompts
RUN /opt/build/bin/hatchling build -t wheel \
    && /opt/mcc/bin/pip install --no-deps --no-index dist/*.whl


FROM ${PYTHON_IMAGE}
# git and ripgrep serve the agents' tools, bubblewrap is their sandbox where the host lets a container use it; tinyproxy is
# the only way from the drones to the outside.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git ripgrep tinyproxy \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 mcc \
    && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin mcc \
    && install --directory --owner mcc --group mcc --mode 0700 /data /data/checkpoints \
    && install --directory --owner mcc --group mcc /workspaces \
    # The configuration is mounted at /config, and agents and blueprints are looked for in $XDG_CONFIG_HOME/mcc.
    && ln --symbolic /config /etc/mcc
COPY --from=build /opt/mcc /opt/mcc
COPY deploy/entry deploy/alive deploy/proxy /usr/local/bin/

ENV PATH=/opt/mcc/bin:$PATH HOME=/tmp XDG_CONFIG_HOME=/etc MCC_DATA_DIR=/data PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /data
USER 10001:10001
EXPOSE 8420
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/entry"]
CMD ["mcc", "serve"]
