// Pages that few look at: they stand in a script of their own (`annex/`), which is loaded with the first of them.
import { html, useEffect, useState } from "./base.js";
import { Bar } from "./frame.js";

const pages = new Map();

export const offer = (kind, page) => pages.set(kind, page);

export function Later({ kind, title, ...shared }) {
  const [failed, setFailed] = useState(false);
  const [, setLoaded] = useState(pages.size);
  useEffect(() => {
    if (!pages.size)
      import("./annex.js").then(
        () => setLoaded(1),
        () => setFailed(true),
      );
  }, []);
  const Page = pages.get(kind);
  if (Page) return html`<${Page} kind=${kind} title=${title} ...${shared} />`;
  return html`
    <${Bar} title=${title} />
    <main class="empty" role="status">
      ${failed && html`
        <p>This page cannot be loaded: the service is away, or has another version.</p>
        <button class="btn" onClick=${() => location.reload()}>
          Load it again
        </button>
      `}
    </main>
  `;
}
