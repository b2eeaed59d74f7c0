// Asks the broker's control API. The token goes along in a header, so that no other site's page can ask in this one's name.

const TOKEN = "ottla-console-token";
export const WRONG_TOKEN = "the token is wrong";

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// Each tab keeps the token until it is closed, and gives it to other tabs of the same address that have none.
const tabs = new BroadcastChannel(TOKEN);

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
  tabs.postMessage({ token });
}

// Calls back with a token that another tab has taken from a person, or has been asked for.
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

// The token as it is. One that no header can hold is no broker's, which fetch would not tell from a broker that does not answer.
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

// A command of the control API. Throws Refused, or TypeError where the broker does not answer.
export async function command(method, path, body) {
  const response = await request(method, path, body === undefined ? {} : { body });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// The server-sent events of a path. EventSource sends no header, so they are read with fetch.
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
    // The pieces of the line that has not ended yet: they are put together once, however many there are.
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

  // An event is some lines, and an empty one at its end.
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
