// A list that is read anew while things happen, as far as somebody went on in it.
import { html, useEffect, useGet, useState } from "../island/base.js";
import { useJoined, useLive } from "../island/live.js";

export function useLively(path) {
  const [pages, setPages] = useState(1);
  const { data, error, reload } = useGet(path, pages);
  const again = useJoined(reload, 5_000);
  useLive((event) => /^(order\.status|poll|ping)$/.test(event.name) && again());
  useEffect(() => {
    if (pages > 1) reload();
  }, [pages]);
  const goOn = data?.next_cursor && html`<button class="btn" onClick=${() => setPages(pages + 1)}>Go on</button>`;
  return { data, error, reload, more: goOn };
}
