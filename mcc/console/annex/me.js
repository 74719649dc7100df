// The page of the caller: who one is, and preferences.
import { address, call, clock, html, post, useAct, useGet } from "../island/base.js";
import { visible } from "../island/look.js";
import { Bar, Facts, Refused, Segments, Table } from "../island/frame.js";

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
