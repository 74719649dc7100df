// What principals are called, wherever one is shown.
import { asQuery, get, html, useEffect, useState } from "./base.js";
import { isMine } from "./rights.js";
import { visible } from "./look.js";

const MOST_NAMES = 200;

const names = new Map();
const called = new Map();
let batch;

// Those who were shown under this name; else what it says is a principal itself.
export function principalsOf(name) {
  const found = [...called].filter((each) => each[1] === name).map(([id]) => id);
  return found[0] ? found : [name];
}

// What a principal is called; those that are drawn together are asked for together.
function askName(principal) {
  if (!names.has(principal)) {
    if (!(batch?.ids.length < MOST_NAMES)) {
      const next = (batch = { ids: [] });
      next.said = new Promise(setTimeout).then(() => {
        if (batch === next) batch = null;
        return get(`principals${asQuery({ ids: next.ids })}`);
      });
    }
    const at = batch.ids.push(principal) - 1;
    names.set(principal, batch.said.then(
      ({ items }) => {
        called.set(principal, items[at].name);
        return items[at].name || "somebody who left";
      },
      () => names.delete(principal) && principal,
    ));
  }
  return names.get(principal);
}

export function Who({ id }) {
  const isCalled = /^\w+:[\w-]{36}$/.test(id) && !isMine(id);
  const [name, setName] = useState("…");
  useEffect(() => {
    if (isCalled) askName(id).then(setName);
  }, [id]);
  return html`<bdi title=${id}>${isMine(id) ? "you" : visible(isCalled ? name : id)}</bdi>`;
}
