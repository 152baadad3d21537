"use strict";
// Who looks at the page, and what that role may do; the view of tokens.

const RANKS = { read: 0, operate: 1, administer: 2 };
const MAY = {
  read: "It sees everything but tokens, and changes nothing. Buttons and forms that change something are not shown.",
  operate: "It closes files, reloads, and changes limits and caching. Buttons and forms for shares, users and tokens are not shown.",
};

let caller = null;        // who the server takes us for: name and role

const may = (role) => caller !== null && RANKS[caller.role] >= RANKS[role];

// A control for those who may use it, and plain text for the others.
const ifMay = (role, control, text) => may(role) ? control : text;

// Asks who we are, and shows what that role may do.
async function learnRole() {
  caller = await ask("GET", "caller");
  for (const part of document.querySelectorAll("[data-needs]")) part.hidden = !may(part.dataset.needs);
  const text = MAY[caller.role];
  byId("role").hidden = !text;
  byId("role").textContent = text ? "This is the " + caller.name + " with the role " + caller.role + ". " + text : "";
}

function drawTokens(tokens) {
  const time = (text, none) => text ? text.replace("T", " ").slice(0, 16) : none;
  const isOver = (token) => token.expires && Date.parse(token.expires) <= Date.now();
  fillByName("tokens", tokens.map((token) => ({
    name: token.name, version: token.created,
    cells: [token.name, token.role, time(token.created), time(token.last_used, "never"), isOver(token) ? "expired " + time(token.expires) : time(token.expires, "never"),
      () => token.name === "admin-token" ? "the file in the state directory"
        : button("Revoke", "Revoke token " + token.name, () => revokeToken(token), "danger")],
  })), may("administer") ? "There is no token." : "Tokens are shown to the role administer only.");
}

async function revokeToken(token) {
  if (!await sure("Revoke token " + token.name + "?", "Whoever uses it is refused from the next request on.", "Revoke token")) return;
  if (await change("DELETE", "tokens/" + encodeURIComponent(token.name))) done("Token " + token.name + " is revoked.");
  refresh();
}

byId("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const fields = event.target.elements, body = { name: fields.name.value.trim(), role: fields.role.value };
  if (fields.expires.value.trim()) body.expires = fields.expires.value.trim();
  const made = await change("POST", "tokens", body);
  if (made) {
    byId("token-dialog").close();
    event.target.reset();
    byId("token-text").value = made.token;
    byId("token-made").showModal();
    byId("token-text").select();
  }
  refresh();
});

// Nothing of a token stays in the page.
byId("token-made").addEventListener("close", () => { byId("token-text").value = ""; });
