// The two pages of the caller: the way in, and preferences.
import {
  address, asQuery, call, clock, html, post, root, since, span, useAct, useEffect, useGet, useState,
} from "./base.js";
import { Mark, visible } from "./look.js";
import { Bar, Facts, Refused, Segments, Table } from "./frame.js";

// The way in. The link's code goes out of the address at once, and is exchanged for a cookie.
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

export function Me({ me, onMe }) {
  const { error, act } = useAct();
  const { data, reload } = useGet("me/signins");
  const preferences = me.preferences ?? {};
  const prefer = (changes) =>
    act(async () => onMe(await call("PATCH", "me", { preferences: { ...preferences, ...changes } })));
  const notify = (event) =>
    event.target.checked
      ? Notification.requestPermission().then((said) => prefer({ notify: said === "granted" }))
      : prefer({ notify: false });
  return html`
    <${Bar}
      title="You"
      count=${me.version}
    />
    <main class="scroll">
      <div class="form">
        <${Facts} of=${[
          ["Name", visible(me.name)],
          ["E-mail", visible(me.email)],
          ["Role", `${me.role}: may ${me.scopes.join(", ")}`],
          ["Signed in", me.signin && `by ${me.signin.by}, until ${clock(me.signin.expires_at)}`],
          ["Programs", html`<a href=${address("tokens")}>Your tokens</a>`],
        ]} />
        <div>
          <p class="label">Theme</p>
          <${Segments}
            label="Theme"
            of=${[
              [null, "As the system"],
              ["light", "Light"],
              ["dark", "Dark"],
            ]}
            value=${preferences.theme ?? null}
            onPick=${(theme) => prefer({ theme })}
          />
        </div>
        <label class="choice">
          <input
            type="checkbox"
            checked=${preferences.keys !== false}
            onChange=${(event) => prefer({ keys: event.target.checked })}
          />
          Single keys do something
        </label>
        ${isSecureContext && html`<label class="choice">
          <input type="checkbox" checked=${preferences.notify} onChange=${notify} />
          Tell me when something waits for me
        </label>`}
        ${me.insecure && html`<p class="wait-text">This page came over plain HTTP: others may read along.</p>`}
        <${Refused} error=${error} />
        <${Table} heads=${["signed in with", ["since", "hide"], "last seen"]}>
            ${data?.items.map((signin) => html`<tr key=${signin.id}>
              <td class="wrap">${signin.agent || "unknown"}</td>
              <td class="hide">${clock(signin.created_at)}</td>
              <td>${clock(signin.last_seen_at)}</td>
              <td class="right">
                ${signin.id === me.signin?.id ? html`<span class="chip live">this one</span>` : html`<button
                  class="btn"
                  onClick=${() =>
                    act(async () => {
                      await call("DELETE", `me/signins/${signin.id}`);
                      reload();
                    })
                  }
                >
                  End
                </button>`}
              </td>
            </tr>`)}
        </${Table}>
        <div>
          <button
            class="btn"
            onClick=${() =>
              act(async () => {
                const { next } = await post("signout");
                location.assign(address(next.replace(/^\//, "")));
              })
            }
          >
            Sign out
          </button>
        </div>
      </div>
    </main>
  `;
}
