// The way in.
import { address, asQuery, html, post, root, useEffect, useState } from "./base.js";
import { Mark } from "./look.js";

// The link's code goes out of the address at once, and is exchanged for a cookie.
export function SignIn({ again }) {
  const [code] = useState(() => location.pathname === `${root.pathname}signin` && location.hash.slice(1));
  const [error, setError] = useState(null);
  const { oidc } = document.getElementById("app").dataset;
  // Without what stands behind the `#`, which may be the code of a link.
  const next = location.pathname.slice(root.pathname.length - 1) + location.search;
  useEffect(() => {
    if (!code) return;
    history.replaceState(null, "", location.pathname);
    post("signin", { code }).then(() => location.replace(root), setError);
  }, [code]);
  return html`<main class="door">
    <div>
      <${Mark} />
      <h1>${again ? "You are signed out" : "Sign in to MCC"}</h1>
      <p class="two">Whoever may place orders here may read what agents read here.</p>
      ${code && !error && html`<p role="status">Signing in …</p>`}
      ${error && html`<p class="refused" role="alert">
        ${error.status === 410
          ? "This link was used already, or its time is over: make another."
          : error.message}
      </p>`}
      ${oidc && html`<a class="btn" target="_self" href=${address("signin/oidc" + asQuery({ next }))}>
        Sign in with ${oidc}
      </a>`}
      <hr />
      <p class="q">
        On the machine itself: <code>mcc up</code>, or <code>mcc open</code> if it is up, makes a link
        that signs you in once.${again && " Sign in in another tab, then load this page again."}
      </p>
    </div>
  </main>`;
}
