// All limits of the agent's side of telemetry, with the reason of each. Those of one event are in contract.ts; those of the service: src/control/sessions/telemetry/limits.ts.

// ---- capture: watching targets

/** What one target, or the whole session, may tell is counted by the second. */
export const WINDOW_MS = 1_000
/** How long a change of what is captured, or a restart of Chromium, waits for the capture. On an idle machine it needs some ten milliseconds. */
export const CHANGE_MS = 5_000
/** After a failure it is tried again. */
export const FOLLOW_AGAIN_MS = 5_000
/**
 * A new target waits at most this long for the collectors: it stands still meanwhile. They need some milliseconds; what they have sent by then is done before the target
 * goes on, also when it is answered later.
 */
export const HELD_MS = 100
/** The same for targets that exist when the capture begins, and go on meanwhile. */
export const BEGUN_MS = 1_000
/** The answer that a target goes on. Without one it is asked again. */
export const RESUME_MS = 5_000
export const RESUME_AGAIN_MS = 1_000
/** An answer about attaching. */
export const ATTACH_MS = 10_000
/** Targets that are watched at once. Others go on unwatched. */
export const MAX_TARGETS = 200
/** A collector begins with some commands that Chromium answers in milliseconds; a page that hangs answers none. */
export const START_MS = 10_000
/** A collector ends with some commands. After this its target is left without waiting for them. */
export const STOP_MS = 2_000
/** A collector that could not begin is begun again after this, or with the next document. */
export const BEGIN_AGAIN_MS = 5_000
/** The longest address in an event, in bytes. */
export const MAX_URL = 4096
/** So much of it is looked at: it is cut when it has no secrets any more. */
export const MAX_RAW_URL = 16 * 1024
/** Clicks with a selector and a text are the longest. */
export const MAX_SAID = 8 * 1024
/** Frames of one target. Above it the scripts of new frames are not heard. */
export const MAX_FRAMES = 500
/** Documents that are prepared at once: a page can make thousands of frames in a moment, and each is some commands. */
export const PREPARED_AT_ONCE = 8
/** Documents that are asked at once whether they show a secret. */
export const MAX_ASKED = 100
/** An answer of a document; one that hangs is asked again. */
export const DOCUMENT_MS = 10_000
export const DOCUMENT_AGAIN_MS = 1_000
/** The scripts of a document that ends its watch. */
export const WORLD_STOP_MS = 1_000
/** The answer whether a secret can be read on the screen. */
export const SHOWN_MS = 500
/** Longer values of fields are not learned. */
export const MAX_PASSWORD = 256

// ---- capture: the console

/**
 * What of one target's console is told in a second: lines, and errors besides them, which a page that writes a lot does not hide. From so many lines (`all`) or characters
 * (`length`) on, Chromium is asked to send none for the rest of the second. Sending one costs the page some 90 µs, and reading it the agent 20 µs.
 */
export const CONSOLE_A_SECOND = { lines: 200, errors: 100, all: 500, length: 4 * 1024 * 1024 }
/** Objects that a page has logged are released so long afterwards. */
export const RELEASE_MS = 1_000
/** A page that hangs answers nothing. */
export const CONSOLE_ANSWER_MS = 30_000
/** A page that did not answer is asked again after this. */
export const CONSOLE_AGAIN_MS = 1_000
/** One text of a call. */
export const CONSOLE_TEXT_BYTES = 4096
/** All arguments of a call, in bytes. */
export const CONSOLE_ARGS_BYTES = 8192
export const CONSOLE_ARGS = 32
/** Of a stack with those that have led to it. */
export const STACK_FRAMES = 20
export const STACK_PARENTS = 4
export const STACK_NAME = 256
export const STACK_URL_BYTES = 1024

// ---- capture: the network

/** Requests of a target that are told of in a second: a page can make any number, and reading one, with its headers and what it sends, takes the agent's time. */
export const NETWORK_A_SECOND = { requests: 1_000 }
/** Bodies that are fetched at once, of one target and of all: each is up to some megabytes on its way through the agent. */
export const BODIES_AT_ONCE = 8
export const BODIES_OF_ALL_AT_ONCE = 16
/** Answers of one target that wait for their body; more come without one. A page that loads a few hundred files at once has all of them. */
export const BODIES_WAITING = 256
/** A page that is busy answers when it can; events are not held back for long. */
export const BODY_ANSWER_MS = 10_000
/** Bodies of all targets in a second: every body holds up the agent while it is read. */
export const BODY_BYTES_A_SECOND = 16 * 1024 * 1024
/** What Chromium keeps of bodies in the memory of each page, in bytes; without a limit 100 MB or more. */
export const KEPT_BODIES = 8 * 1024 * 1024
/** A longer body is not fetched: it would go through the agent as a whole. */
export const MAX_BODY = 1024 * 1024
/** Post data up to this length comes with its request; of longer ones nothing is told but that there is some. */
export const MAX_POST = 64 * 1024
/** Words of Chromium: ids, types, methods. */
export const SHORT_TEXT = 64
/** So much of a text is looked at before it is cut. */
export const MAX_RAW_TEXT = 4096
/** Requests that may go on in another session, of all targets. */
export const MAX_MOVING = 200
/** What an event has of a body: of JSON, XML and forms, in bytes. */
export const STRUCTURED_BYTES = 8 * 1024
/** Of other text, in bytes. */
export const TEXT_BYTES = 4 * 1024
/** Requests of one target that have not ended. More are told, but not what comes of them. */
export const MAX_FLIGHTS = 2_000
/** What is kept of the requests of all targets, in characters. */
export const MAX_HELD = 16 * 1024 * 1024
/** Roughly what a request takes besides its texts. */
export const FLIGHT_WEIGHT = 500
/** The API's definition of an idle network. */
export const IDLE_MS = 500
/** The word of a proxy that is not known. */
export const PROXY_CODE = 64

// ---- capture: pages and what users do

/**
 * What of the life of one page is told in a second: of its own document; and of the frames inside it, of which 500 are watched, and its timeline. A page may have its
 * frames load again, and its layout shift, without end.
 */
export const PAGE_A_SECOND = { document: 100, frames: 500 }
/** A page has come to rest when nothing in it has moved for so long after it has loaded. */
export const SETTLED_MS = 1_000
export const MAX_ID = 64
export const MAX_TITLE = 512
export const CLICK_TEXT = 200
export const MAX_SELECTOR = 512
export const MAX_TAG = 64
export const MAX_KEY = 32
/** Texts are longer than what is told of them, so that secrets are found at their end (in-page/interaction.js). */
export const MAX_TOLD = 1024
/** At most one picture in this time, for all pages. */
export const PICTURE_EVERY_MS = 2_000
/** What a click or a load changes is on the screen by then. */
export const PICTURE_SOON_MS = 300
/** A page that is not on the screen has no frames. */
export const FRAME_MS = 2_000
/** The longest side in pixels: a picture of the first size that is too large is made again in the next. */
export const PICTURE_SIDES = [960, 480] as const
/** In characters of base64, 700 KB of PNG. */
export const MAX_PICTURE = 933_000

// ---- capture: clients of CDP

/** What is read of one connection's commands in a second, in bytes. It takes the agent's time; the bytes themselves are passed on before. */
export const COMMAND_BYTES_A_SECOND = 8 * 1024 * 1024
/** Bytes of the beginning of a message that are looked at, to see whether the whole of it is wanted. */
export const LOOKED_AT = 512
/** Longer messages are not kept. */
export const MAX_MESSAGE = 1024 * 1024
/** Identifiers are cut to this; Chromium's have 32 characters. */
export const COMMAND_ID = 128
/** Limit on the entries of a drag that are looked at: there are ten kinds. */
export const DRAG_ITEMS = 1000

// ---- buffer

/**
 * What is kept. The API promises 1,024 events; a service that comes back after a restart reads on from here. The session's memory limit includes it. Lengths are in
 * characters of JSON. `pictures`: above it the oldest ones are left out of their events: some twenty pictures would else be all that is kept of a session. `own`: of what pages
 * cannot make so much stays, however many events pages make: as much as one second may have.
 */
export const KEPT = {
  events: 8_192,
  length: 16 * 1024 * 1024,
  picturesLength: 8 * 1024 * 1024,
  ownEvents: 1_024,
  ownLength: 1024 * 1024,
}
/**
 * What a session may tell of in a second. A page decides how much happens in it; what is above this is dropped, and told of. `own`: what pages cannot make, calls, connections
 * and crashes; they are told whatever a page does.
 */
export const A_SECOND = { events: 4_000, length: 8 * 1024 * 1024, ownEvents: 1_000, ownLength: 1024 * 1024 }
/** How often a stream is told the number of the last event that its filter has left out: as often as it would get a comment. */
export const SKIPPED_MS = 15_000
/** A follower that hears nothing for some times this long takes the agent for dead. */
export const FEED_BEAT_MS = 1_000
/** After some lines the next ones are gathered: each write wakes the service, and a client of CDP may make a thousand events a second. */
export const FEED_GATHER_MS = 20
/** Characters at once; the longest event has a million. */
export const FEED_LENGTH = 256 * 1024
