// A user's device in this browser: its phone, its network, and the client that uses them. All tabs are one device.

import { indexedDbStorage, open, type Pigeonhole } from "@pigeonhole/client";
import { keysOf } from "./keys.ts";
import { local, sameTables } from "./local.ts";
import { Network, type Passed } from "./network.ts";
import { Phone } from "./phone.ts";

export class Device {
  readonly pigeonhole: Pigeonhole;
  readonly phone: Phone;
  /** Names the tables of the server, to which what the page keeps belongs. */
  readonly dataId: string;
  /** The user's messages to other users leave encrypted. */
  readonly isEncrypted: boolean;
  #network: Network;

  private constructor(pigeonhole: Pigeonhole, phone: Phone, dataId: string, isEncrypted: boolean, network: Network) {
    this.pigeonhole = pigeonhole;
    this.phone = phone;
    this.dataId = dataId;
    this.isEncrypted = isEncrypted;
    this.#network = network;
  }

  /**
   * Connects, unless the user had switched the device off. `named`: a second device in this browser. `passed` gets every
   * frame, `turned` each turn of the switch.
   */
  static async open(
    user: string,
    named: string | undefined,
    passed: (frame: Passed) => void,
    turned: () => void,
  ): Promise<Device> {
    const { data_id } = await local();
    const name = `${user} of ${data_id}${named === undefined ? "" : ` on ${named}`}`;
    const keys = await keysOf(user, data_id);
    const network = new Network(name, passed, () => {
      if (!network.isCut) {
        pigeonhole.wake();
      }
      turned();
    });
    const phone = new Phone(user, name);
    const pigeonhole = await open({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1`,
      userId: user,
      deviceId: phone.deviceId,
      token: () => token(user),
      // The messages of other tables are others.
      storage: indexedDbStorage(name),
      webSocket: network.open,
      ...(keys && { encrypted: keys }),
    });
    pigeonhole.showNames();
    return new Device(pigeonhole, phone, data_id, keys !== undefined, network);
  }

  get isCut(): boolean {
    return this.#network.isCut;
  }

  /** Switches the connection on or off, in all tabs. The state survives a reload. */
  turn(isOn: boolean): void {
    this.#network.turn(isOn);
  }
}

/** Returns a token from the local server, which issues one for any user. */
async function token(user: string): Promise<string> {
  await sameTables();
  const response = await fetch(`/token?${new URLSearchParams({ user })}`);
  if (!response.ok) {
    throw new Error(`no token: ${response.status}`);
  }
  const { token } = await response.json();
  return token;
}
