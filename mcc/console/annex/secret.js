// A secret that nobody can read again.
import { html, useRef, useState } from "../island/base.js";
import { Dialog } from "../island/frame.js";

export function Once({ title, text, onClose, children }) {
  const code = useRef();
  const [copied, setCopied] = useState(false);
  const copy = () => {
    getSelection().selectAllChildren(code.current);
    // Over plain HTTP beyond this machine there is no clipboard: what is selected is copied by hand.
    navigator.clipboard?.writeText(text).then(() => setCopied(true));
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p class="two">${children} It is shown this once.</p>
    <pre class="exact" tabindex="0"><code ref=${code}>${text}</code></pre>
    <div class="row end">
      <button class="btn ink" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
      <button class="btn" onClick=${onClose}>Close</button>
    </div>
  </${Dialog}>`;
}
