# The hub as an ordinary user, with what runs in production and nothing else. Build it with any builder that reads this form:
#   docker build --tag ocpi-hub .   (buildah and podman keep the health check only with --format docker)
#   docker run --volume ocpi-hub-data:/data --volume ocpi-hub-backups:/backups --publish 8080:8080 --stop-timeout 15 --env HUB_PUBLIC_URL=https://hub.example ocpi-hub
# The hub takes up to ten seconds to finish what is in flight, so its stop needs a little more than the usual ten.

# Node 24.21.0 on Debian 12, by the digest under which docker-library/repo-info lists it (repos/node/remote/24.21.0-slim.md; amd64, arm64, ppc64le).
# A newer one: docker build --build-arg NODE_IMAGE=node:24.x.y-slim@sha256:…
ARG NODE_IMAGE=node:24.21.0-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN npm run build && npm ci --omit=dev

FROM ${NODE_IMAGE}
# Large bodies are returned to the system at once (MALLOC_…); the C library would keep more of them the longer the hub runs.
ENV NODE_ENV=production HUB_HOST=0.0.0.0 HUB_PORT=8080 HUB_DATA_DIR=/data MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072
WORKDIR /hub
RUN install --directory --owner=node --group=node --mode=0700 /data /backups
COPY --from=build /build/package.json /build/LICENSE ./
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
USER node
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["node", "-e", "process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; const scheme = process.env.HUB_TLS_CERT ? 'https' : 'http'; fetch(`${scheme}://127.0.0.1:${process.env.HUB_PORT}/healthz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/bin/ocpi-hub.js"]
CMD ["serve"]
