// Sends requests to the broker's control API. The token is in a header, so that pages of other sites cannot send such requests.

const TOKEN = "ottla-console-token";
export const WRONG_TOKEN = "the token is wrong";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// Each tab stores the token until the tab is closed, and sends it to tabs of the same origin that have no token.
const tabs = new BroadcastChannel(TOKEN);

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
  tabs.postMessage({ token });
}

// Calls `received` with the token of another tab, and sends this tab's token to tabs that request one.
export function onTokenOfOtherTab(received) {
  tabs.onmessage = ({ data }) => {
    const own = sessionStorage.getItem(TOKEN);
    if (data.isWanted && own) tabs.postMessage({ token: own });
    if (data.token && data.token !== own) received(data.token);
  };
}

export const askOtherTabs = () => tabs.postMessage({ isWanted: true });
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);
export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

// Throws Refused for a token that is invalid in a header. fetch would raise the error for a broker that does not respond.
function authorized() {
  try {
    return new Headers({ Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` });
  } catch {
    throw new Refused(401, WRONG_TOKEN);
  }
}

const request = async (method, path, init = {}) =>
  fetch(path, { method, headers: authorized(), cache: "no-store", credentials: "omit", ...init });

async function refusal(response) {
  const answer = await response.json().catch(() => ({}));
  return new Refused(response.status, answer.error ?? `the control API returned ${response.status}`);
}

// Sends a command to the control API. Throws Refused, or TypeError if the broker does not respond.
export async function command(method, path, body) {
  const response = await request(method, path, body === undefined ? {} : { body });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// Reads the server-sent events of a path with fetch, because EventSource cannot send headers.
export class Live {
  constructor(path, { refused, ended, ...others }) {
    this.abort = new AbortController();
    this.fields = {};
    this.handlers = {
      ...others,
      refused: (data) => refused(new Refused(data.status, data.error)),
    };
    const end = (error) => {
      if (this.abort.signal.aborted) return;
      this.close();
      ended(error);
    };
    this.read(path).then(() => end(null), end);
  }

  close() {
    this.abort.abort();
  }

  async read(path) {
    const response = await request("GET", path, { signal: this.abort.signal });
    if (!response.ok) throw await refusal(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    // The pieces of the incomplete line. They are joined only once, because joining at each piece would take quadratic time.
    let pieces = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const [rest, ...begun] = value.split("\n");
      pieces.push(rest);
      for (const next of begun) {
        this.line(pieces.join(""));
        pieces = [next];
      }
    }
  }

  // An event consists of lines and ends with an empty line.
  line(text) {
    if (text !== "") {
      const colon = text.indexOf(": ");
      this.fields[text.slice(0, colon)] = text.slice(colon + 2);
      return;
    }
    const { event, data } = this.fields;
    this.fields = {};
    if (event in this.handlers) this.handlers[event](JSON.parse(data));
  }
}
