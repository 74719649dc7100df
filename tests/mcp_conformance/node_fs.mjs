// Node before 22 has no `globSync`. The conformance tests name it in an import, and use it only where they rank SDKs.
import { register } from 'node:module';

const shim = `data:text/javascript,${encodeURIComponent(`
export * from 'node:fs';
import * as fs from 'node:fs';
export const globSync = fs.globSync;
`)}`;
const hook = `
export async function resolve(specifier, context, next) {
  if (specifier === 'fs') return { url: ${JSON.stringify(shim)}, shortCircuit: true };
  return next(specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
