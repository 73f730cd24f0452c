# syntax=docker/dockerfile:1
# Tags move. To build on the same base each time, name digests: docs/reference/security.md, "The image".
ARG PYTHON_IMAGE=python:3.13-slim-trixie
ARG UV_IMAGE=ghcr.io/astral-sh/uv:0.13.9

FROM ${UV_IMAGE} AS uv

FROM ${PYTHON_IMAGE} AS build
COPY --from=uv /uv /bin/uv
# An extra of pyproject.toml, none by default: `demo` includes a Postgres for `riverui demo`.
ARG EXTRA=
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PROJECT_ENVIRONMENT=/opt/riverui \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /src
RUN --mount=type=cache,target=/root/.cache/uv \
    --mount=type=bind,source=uv.lock,target=/src/uv.lock \
    --mount=type=bind,source=pyproject.toml,target=/src/pyproject.toml \
    uv sync --locked --no-dev --no-install-project ${EXTRA:+--extra "${EXTRA}"}
COPY . /src
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-dev --no-editable ${EXTRA:+--extra "${EXTRA}"}
# The user that it runs as may not write the compiled templates. uv leaves a file that everybody may write.
RUN /opt/riverui/bin/python -P -c \
    "import asyncio; from riverui.web.view import render; asyncio.run(render.load_templates(render.environment({})))" && \
    rm -f /opt/riverui/.lock

FROM ${PYTHON_IMAGE}
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="riverui" \
      org.opencontainers.image.description="A dashboard for River, the Postgres job queue" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# By hand, as not every base has useradd, and it takes so high a number only under protest and with another group.
RUN echo "riverui:x:10001:" >> /etc/group && \
    echo "riverui:x:10001:10001::/nonexistent:/usr/sbin/nologin" >> /etc/passwd
COPY --from=build /opt/riverui /opt/riverui
# Without authentication riverui refuses to listen on 0.0.0.0, so the image is closed until RIVER_BASIC_AUTH_USER and
# RIVER_BASIC_AUTH_PASS or RIVERUI_HTPASSWD_FILE are set, or RIVERUI_NO_AUTH=1 says that something else protects it.
ENV PATH="/opt/riverui/bin:$PATH" \
    PORT=8080 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RIVER_HOST=0.0.0.0
USER 10001:10001
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=5s --retries=3 CMD ["riverui", "healthcheck", "minimal"]
ENTRYPOINT ["riverui"]
CMD ["serve"]
