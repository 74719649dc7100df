// Lets a command line in: whoever typed its code sees what asks, and decides.
import { html, post, useAct, useState } from "../island/base.js";
import { visible } from "../island/look.js";
import { Bar, Refused } from "../island/frame.js";

export function Device() {
  const [code, setCode] = useState("");
  const [asks, setAsks] = useState(null);
  const { error, act } = useAct();
  const send = (decision) => act(async () => setAsks(await post("device", { user_code: code, decision })));
  return html`
    <${Bar} title="Command line" />
    <main class="scroll">
      <form
        class="form"
        onSubmit=${(event) => {
          event.preventDefault();
          send();
        }}
      >
        <${Refused} error=${error} />
        ${!asks && html`
          <label>
            <span class="label">The code that mcc login shows</span>
            <input class="field" required value=${code} onInput=${(event) => setCode(event.target.value)} />
          </label>
          <div><button class="btn">Look</button></div>
        `}
        ${asks && html`<p role="status">
          <b>${visible(asks.client)}</b>, from ${asks.address}, asks to act as you: ${asks.state}.
        </p>`}
        ${asks?.state === "pending" && html`<div class="row">
          Did you start it?
          <button type="button" class="btn ink" onClick=${() => send("approve")}>Approve</button>
          <button type="button" class="btn" onClick=${() => send("deny")}>Deny</button>
        </div>`}
      </form>
    </main>
  `;
}
