// What the local server says of itself.

interface Local {
  /** Which tables it has: in memory they are others at each start. */
  data_id: string;
  queue_url?: string | null;
}

let asked: Promise<Local> | undefined;

/** Asked once. */
export function local(): Promise<Local> {
  asked ??= fetch("/local").then(async (answer): Promise<Local> => {
    if (!answer.ok) {
      throw new Error(`The server says nothing of itself: HTTP ${answer.status}`);
    }
    return answer.json();
  });
  return asked;
}
