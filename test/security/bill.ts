/**
 * The bill of materials of a release, CycloneDX 1.5: every package that runs in production or is bundled into the console's page, with
 * version, licence and the digest of its content. `npm run release:sbom` writes it to `dist/sbom.cdx.json`.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundled, production } from './licences.ts';

interface Component {
  readonly 'bom-ref': string;
  readonly type: string;
  readonly name: string;
  readonly version: string;
  readonly scope?: string;
  readonly properties?: readonly { readonly name: string; readonly value: string }[];
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly object[];
}

interface Bill {
  readonly bomFormat: string;
  readonly specVersion: string;
  readonly metadata: { readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const npm = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'];
const development = 'cdx:npm:package:development';

/** As npm writes it from the lock file, without packages that a release does not hold. */
export function billOfMaterials(): Bill {
  const whole = JSON.parse(execFileSync('npm', npm, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })) as Bill;
  const held = new Set([...production(), ...bundled()].map(({ name, version }) => `${name}@${version}`));
  const { component } = whole.metadata;
  const isHeld = (ref: string) => held.has(ref) || ref === component['bom-ref'];
  return {
    ...whole,
    // npm takes the name of the folder.
    metadata: { ...whole.metadata, component: { ...component, name: 'ocpi-hub' } },
    components: whole.components.filter((one) => isHeld(one['bom-ref'])).map(asPassedOn),
    dependencies: whole.dependencies
      .filter(({ ref }) => isHeld(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter(isHeld) })),
  };
}

/** What npm calls optional and of development is bundled into the page, if it is here. */
const asPassedOn = (one: Component): Component => ({
  ...one,
  scope: 'required',
  properties: (one.properties ?? []).filter(({ name }) => name !== development),
});

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync('dist/sbom.cdx.json', `${JSON.stringify(billOfMaterials(), null, 2)}\n`);
}
