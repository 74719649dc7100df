// What the caller may do, by the rules of mcc/api/access/scopes.py and ownership.py. A test compares their answers.
const HOLDERS = {
  write: "members, operators and admins",
  operate: "operators and admins",
  metrics: "operators and admins",
  admin: "admins",
};

let caller = { scopes: [] };

export const actAs = (me) => {
  caller = me;
};

export const myself = () => caller.principal;
export const isMine = (principal) => principal === caller.principal;

// What a control is without the right to what it does: disabled, and who has it in its title. Null: the caller may.
// `owner`: whose thing it changes; with the right `write` that are own ones, `operate` reaches those of others.
export function barred(scope, owner) {
  const needed = [scope, owner && !isMine(owner) && "operate"].findLast(Boolean);
  return caller.scopes.includes(scope) && caller.scopes.includes(needed)
    ? null
    : { disabled: true, title: `${needed === scope ? "This" : "It is not yours: this"} is for ${HOLDERS[needed]}.` };
}
