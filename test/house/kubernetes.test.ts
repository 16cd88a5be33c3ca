/**
 * The Kubernetes manifests agree with the product: its settings, its paths, its port, the user of its image. They also
 * match the schema of Kubernetes where that is installed; it is too large to be a dependency.
 *
 *   npm install --no-save kubernetes-models@4.5.1 && npm run build:tests && npx tap dist/test/house/kubernetes.test.js
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import ts from 'typescript';
import { parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/config.ts';
import { type Test, t } from '../support/tap.ts';

const directory = 'docs/deploy/kubernetes';
const models = 'node_modules/kubernetes-models';
const schema = existsSync(models) ? {} : { skip: 'kubernetes-models is not installed' };

interface Manifest {
  readonly file: string;
  readonly object: { readonly apiVersion: string; readonly kind: string; readonly metadata: { readonly name: string } };
}

const manifests: Manifest[] = readdirSync(directory)
  .filter((file) => file.endsWith('.yaml'))
  .flatMap((file) => {
    const documents = parseAllDocuments(readFileSync(join(directory, file), 'utf8'));
    return documents.map((document) => {
      for (const problem of [...document.errors, ...document.warnings]) throw problem;
      return { file, object: document.toJS() };
    });
  });

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly timeoutSeconds?: number;
}

interface Container {
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly livenessProbe: Probe;
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
}

interface Pods {
  readonly securityContext: { readonly runAsUser: number };
  readonly containers: readonly [Container];
}

/** The object of this kind and name, cast to the type that the caller expects; throws when there is none. */
function found<T>(kind: string, name = 'ocpi-hub'): T {
  const found = manifests.find(({ object }) => object.kind === kind && object.metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found.object as unknown as T;
}

const { spec } = found<{ spec: { template: { metadata: { labels: object }; spec: Pods } } }>('Deployment');
const { metadata, spec: pods } = spec.template;
const [container] = pods.containers;
const dockerfile = readFileSync('Dockerfile', 'utf8');

t.test('the hub accepts the settings of the manifests, and needs those of the Secret', async (t) => {
  const { stringData } = found<{ stringData: Record<string, string> }>('Secret');
  const env: Record<string, string> = { HUB_HOST: '0.0.0.0', HUB_PORT: '8080', HUB_DATA_DIR: '/data' };
  t.match(
    dockerfile,
    Object.keys(env).reduce((text, name) => `${text} ${name}=${env[name]}`, 'ENV NODE_ENV=production'),
  );
  for (const { name, value } of container.env) env[name] = (value ?? '10.1.2.3').replace('$(POD_IP)', '10.1.2.3');
  t.throws(() => loadConfig({ env: { ...env, ...stringData, HUB_STORE: 'postgres://10.0.0.11/hub' }, flags: {} }), {
    message: /HUB_ADMIN_TOKEN.*not set/,
  });
  for (const name of Object.keys(stringData)) env[name] = `${name}-of-32-characters-at-least`;
  env.HUB_STORE = 'postgres://hub:password@10.0.0.11,10.0.0.12,10.0.0.13/hub';
  const config = loadConfig({ env, flags: {} });
  t.equal(config.nodeUrl, 'http://10.1.2.3:8082');
  t.strictSame(config.operators, { host: '0.0.0.0', port: 8081 });
  t.strictSame(config.nodes, { host: '0.0.0.0', port: 8082 });
  t.strictSame(config.egressAllow, [], 'no private network is open to partners');
});

t.test('probes, services and the image are those of the hub', async (t) => {
  const { livenessProbe, startupProbe, readinessProbe, ports } = container;
  t.equal(livenessProbe.httpGet.path, '/healthz');
  t.equal(startupProbe.httpGet.path, '/healthz');
  t.equal(readinessProbe.httpGet.path, '/readyz');
  t.strictSame(ports, [
    { name: 'http', containerPort: 8080 },
    { name: 'operators', containerPort: 8081 },
    { name: 'nodes', containerPort: 8082 },
  ]);
  t.match(dockerfile, /EXPOSE 8080/);
  t.match(dockerfile, /^ARG NODE_IMAGE=node:.*\n(?:.*\n)*USER node$/m, 'whose number is 1000 in the images of Node');
  t.equal(pods.securityContext.runAsUser, 1000);
  for (const [name, port] of [
    ['ocpi-hub-partners', 'http'],
    ['ocpi-hub-operators', 'operators'],
    ['ocpi-hub-nodes', 'operators'],
  ] as const) {
    const { spec } = found<{ spec: { selector: object; ports: readonly { targetPort: string }[] } }>('Service', name);
    t.strictSame(spec.selector, metadata.labels);
    t.strictSame(
      spec.ports.map(({ targetPort }) => targetPort),
      [port],
    );
  }
});

t.test('the Ingress lets partners reach their paths, and nothing else', async (t) => {
  const { spec } = found<{ spec: { rules: readonly { http: { paths: readonly object[] } }[] } }>('Ingress');
  const backend = { service: { name: 'ocpi-hub-partners', port: { name: 'http' } } };
  t.strictSame(
    spec.rules.flatMap(({ http }) => http.paths),
    [{ path: '/ocpi', pathType: 'Prefix', backend }],
  );
});

t.test('the Ingress has the body limits and time-outs of nginx.conf', async (t) => {
  const { metadata } = found<{ metadata: { annotations?: Record<string, string> } }>('Ingress');
  const nginx = readFileSync('docs/deploy/nginx.conf', 'utf8');
  const ofNginx = (name: string) => new RegExp(`^ +${name} (\\d+\\w);$`, 'm').exec(nginx)?.[1] ?? name;
  t.strictSame(metadata.annotations, {
    'nginx.ingress.kubernetes.io/proxy-body-size': ofNginx('client_max_body_size'),
    'nginx.ingress.kubernetes.io/proxy-read-timeout': ofNginx('proxy_read_timeout').replace('s', ''),
    'nginx.ingress.kubernetes.io/proxy-send-timeout': ofNginx('proxy_send_timeout').replace('s', ''),
  });
});

t.test('each manifest matches the schema of Kubernetes', schema, async (t) => {
  const load = createRequire(join(process.cwd(), 'package.json'));
  for (const { file, object } of manifests) {
    const { apiVersion, kind } = object;
    const { [kind]: Model } = load(`kubernetes-models/${apiVersion}/${kind}`);
    t.doesNotThrow(() => new Model(object).validate(), `${file}: ${kind}`);
    t.throws(() => new Model({ ...object, metadata: { name: 1 } }).validate(), 'it looks');
  }
});

t.test('no manifest has a field that Kubernetes does not know', schema, async (t) => {
  t.strictSame(complaints(t, manifests), []);
  const [deployment] = manifests.filter(({ object }) => object.kind === 'Deployment') as [Manifest];
  const object = { ...deployment.object, spec: { ...spec, minReadySecond: 10 } };
  t.match(complaints(t, [{ file: 'hub.yaml', object }]), [/minReadySecond/], 'it looks');
});

/** Errors of the TypeScript compiler, which gets each manifest as a literal of its kind and refuses unknown fields. */
function complaints(t: Pick<Test, 'teardown'>, all: readonly Manifest[]): string[] {
  const path = join(process.cwd(), 'manifests-of-a-test.ts');
  t.teardown(() => rmSync(path, { force: true }));
  const lines = all.map(({ object }, i) => {
    const { apiVersion, kind } = object;
    return `export const m${i}: import('kubernetes-models/${apiVersion}/${kind}').I${kind} = ${JSON.stringify(object)};`;
  });
  writeFileSync(path, lines.join('\n'));
  const options = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, types: [] },
    ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  };
  const program = ts.createProgram([path], options);
  return ts.getPreEmitDiagnostics(program).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
