/**
 * What the product is made of: few packages, each at one exact version with the digest of its content, under a licence that is
 * known and allowed, and none that runs code of its own when it is installed but those that are known to.
 */
import { readFileSync } from 'node:fs';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { billOfMaterials } from './bill.ts';
import { allowedLicences, bundled, knownInstallScripts, licencesText, lockedPackages, production } from './licences.ts';

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, Record<string, string>>;

t.test('every dependency has one exact version', async (t) => {
  for (const kind of ['dependencies', 'devDependencies', 'overrides']) {
    const inexact = Object.entries(manifest[kind] ?? {}).filter(
      ([, range]) => !/^(npm:[\w@/-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/.test(range),
    );
    t.strictSame(inexact, [], kind);
  }
  t.match(readFileSync('.npmrc', 'utf8'), /^save-exact=true$/m, 'and the next one will be');
});

t.test('the production dependencies are few', async (t) => {
  const direct = Object.keys(manifest.dependencies ?? {});
  t.ok(direct.length > 5 && direct.length <= 17, `${direct.length} direct ones`);
  t.ok(production().length <= 120, `${production().length} with all that they need`);
});

t.test('the lock file has the digest of every package, except binaries for other platforms', async (t) => {
  const without = lockedPackages().filter(({ integrity }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''));
  t.strictSame(
    without.filter(({ optional, dev }) => !(optional && dev)).map(({ path }) => path),
    [],
  );
});

t.test('every distributed package has an allowed licence', async (t) => {
  for (const { name, version, license } of [...production(), ...bundled()]) {
    t.ok(license !== undefined && allowedLicences.has(license), `${name} ${version}: ${license ?? 'unknown'}`);
  }
});

t.test('docs/LICENSES.md matches the lock file', async (t) => {
  t.equal(readFileSync('docs/LICENSES.md', 'utf8'), licencesText(), 'write it anew with test/security/licences.ts');
});

t.test('the bill of materials of a release names the distributed packages and nothing else', atLength, async (t) => {
  const { bomFormat, metadata, components, dependencies } = billOfMaterials();
  t.strictSame([bomFormat, metadata.component.name], ['CycloneDX', manifest.name]);
  const passedOn = [...production(), ...bundled()].map(({ name, version }) => `${name}@${version}`);
  t.strictSame(components.map((one) => one['bom-ref']).sort(), [...new Set(passedOn)].sort());
  t.strictSame(
    components.filter(({ hashes = [], licenses = [] }) => hashes[0]?.alg !== 'SHA-512' || licenses.length === 0),
    [],
    'each with a digest and a licence',
  );
  const refs = new Set([...components, metadata.component].map((one) => one['bom-ref']));
  t.strictSame(
    dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn]).filter((ref) => !refs.has(ref)),
    [],
    'and what needs which names no other package',
  );
});

t.test('no package runs code at its installation except known ones', async (t) => {
  const scripted = lockedPackages().filter(({ hasInstallScript }) => hasInstallScript);
  t.strictSame(scripted.map(({ name }) => name).sort(), Object.keys(knownInstallScripts).sort());
});
