// How the console's requests reach the function `admin`. A deployment replaces this file by its own: the function gets a
// request of docs/operating.md, and resolves to the reply. `links` are shown above the page.
globalThis.pigeonholeConsole = {
  async ask(request) {
    const body = JSON.stringify(request);
    const headers = { "content-type": "application/json" };
    const response = await fetch("/local/admin", { method: "POST", headers, body });
    if (!response.ok) {
      throw new Error(`HTTP ${response.status}: ${await response.text()}`);
    }
    return response.json();
  },
  links: { Demo: "/" },
};
