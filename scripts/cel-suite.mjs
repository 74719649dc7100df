// Prints the tests of CEL's specification as one JSON list; each says the section and the suite that it stands in.
import { pathToFileURL } from "node:url";

const { tests } = await import(pathToFileURL(process.argv[2]).href);
const listed = [];

function walk(suite, path) {
  for (const { original } of suite.tests ?? []) {
    listed.push({ section: path[0], suite: path.slice(1).join("/"), ...original });
  }
  for (const inner of suite.suites ?? []) {
    walk(inner, [...path, inner.name]);
  }
}

walk(tests, []);
console.log(JSON.stringify(listed));
