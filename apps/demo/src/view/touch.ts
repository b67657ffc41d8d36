// A long press of a finger, which replaces a mouse's right button. Not every browser sends `contextmenu` for it.

const LONG_MS = 500;
/** A finger that moves farther scrolls. */
const STILL_PX = 10;

export function pressedLong(element: HTMLElement, pressed: (target: EventTarget | null) => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let from = { x: 0, y: 0 };
  let wasLong = false;
  const end = () => clearTimeout(timer);
  element.addEventListener("pointerdown", ({ pointerType, isPrimary, target, clientX, clientY }) => {
    end();
    wasLong = false;
    if (pointerType === "touch" && isPrimary) {
      from = { x: clientX, y: clientY };
      timer = setTimeout(() => {
        wasLong = true;
        pressed(target);
      }, LONG_MS);
    }
  });
  element.addEventListener("pointermove", ({ clientX, clientY }) => {
    if (Math.hypot(clientX - from.x, clientY - from.y) > STILL_PX) {
      end();
    }
  });
  // Nor is it a click of what is below the finger.
  const clicked = (event: MouseEvent) => {
    if (wasLong) {
      event.preventDefault();
      event.stopPropagation();
    }
  };
  element.addEventListener("click", clicked, { capture: true });
  for (const over of ["pointerup", "pointercancel", "pointerleave"] as const) {
    element.addEventListener(over, end);
  }
}
