// A user's device in this tab: its storage, its phone, its network, and the client that uses them.

import { type Client, connect, indexedDbStorage } from "@pigeonhole/client/events";
import { local, sameTables } from "./local.ts";
import { Network, type Passed } from "./network.ts";
import { Phone } from "./phone.ts";
import { kept, takeStorage } from "./tab.ts";

export class Device {
  readonly client: Client;
  readonly phone: Phone;
  /** Names the tables of the server, to which what the page keeps belongs. */
  readonly dataId: string;
  #network: Network;
  #isCut: ReturnType<typeof kept>;

  private constructor(client: Client, phone: Phone, dataId: string, network: Network, isCut: ReturnType<typeof kept>) {
    this.client = client;
    this.phone = phone;
    this.dataId = dataId;
    this.#network = network;
    this.#isCut = isCut;
  }

  /** Connects, unless the user had switched the device off before a reload. `passed` gets every frame. */
  static async open(user: string, passed: (frame: Passed) => void): Promise<Device> {
    const isCut = kept(`cut off ${user}`);
    const network = new Network(isCut.get() !== null, passed);
    const { data_id } = await local();
    const storage = await takeStorage(user);
    const phone = new Phone(user, storage);
    const client = await connect({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1`,
      userId: user,
      deviceId: phone.deviceId,
      token: () => token(user),
      // Entries of other tables are about other messages.
      storage: indexedDbStorage(`${storage} of ${data_id}`),
      webSocket: network.open,
    });
    return new Device(client, phone, data_id, network, isCut);
  }

  get isCut(): boolean {
    return this.#network.isCut;
  }

  /** Switches the connection on or off. The state survives a reload. */
  turn(isOn: boolean): void {
    this.#isCut.set(isOn ? undefined : "yes");
    if (isOn) {
      this.#network.mend();
      this.client.wake();
    } else {
      this.#network.cut();
    }
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
