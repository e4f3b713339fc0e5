"use strict";
// A page opened from disk may not start a worker, and the search is one. There its script runs in a hidden frame,
// which is given messages, and gives some back, as a worker does: as copies.
if (location.protocol === "file:") {
  window.Worker = class {
    #frame = document.createElement("iframe");
    #early = []; // messages that came before the script; null behind it

    constructor(address) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (message) => {
        const data = structuredClone(message);
        setTimeout(() => this.onmessage?.({ data }));
      };
      const script = inside.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => this.#start());
      inside.document.body.append(script);
    }

    #start() {
      const early = this.#early;
      this.#early = null;
      for (const message of early) this.postMessage(message);
    }

    postMessage(message) {
      const data = structuredClone(message);
      if (this.#early) this.#early.push(data);
      else setTimeout(() => this.#frame.contentWindow?.onmessage({ data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
