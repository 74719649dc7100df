// A provider of identities for tests: node provider.mjs PORT PUBLIC_URL [SECRET]
//
// PUBLIC_URL is where browsers reach MCC. Who signs in is whoever the name is typed of. What groups they are in is set by
// `PUT /groups/NAME` with a JSON list; without SECRET, MCC is a public client. It says `ready` once it answers.
import { Provider } from "oidc-provider";

const [port, publicUrl, secret] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const groups = new Map();

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "mcc service",
      ...(secret ? { client_secret: secret } : { token_endpoint_auth_method: "none" }),
      redirect_uris: [`${publicUrl}/signin/oidc/callback`],
      post_logout_redirect_uris: [`${publicUrl}/signin`],
      backchannel_logout_uri: `${publicUrl}/signin/oidc/backchannel`,
      backchannel_logout_session_required: true,
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
  // Else what an ID token says of a person is left to userinfo.
  conformIdTokenClaims: false,
  cookies: { keys: ["of-a-test"] },
  features: { backchannelLogout: { enabled: true } },
  pkce: { required: () => true },
  // Its own agent refuses loopback addresses.
  fetch: (url, options) => {
    delete options.dispatcher;
    return fetch(url, options);
  },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      name: `${id} of the provider`,
      email: `${id}@example.com`,
      groups: groups.get(id) ?? ["dev"],
    }),
  }),
});

provider.use(async (ctx, next) => {
  const name = ctx.method === "PUT" && ctx.path.match(/^\/groups\/(\w+)$/)?.[1];
  if (!name) return next();
  const body = [];
  for await (const piece of ctx.req) body.push(piece);
  groups.set(name, JSON.parse(Buffer.concat(body)));
  ctx.status = 204;
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
