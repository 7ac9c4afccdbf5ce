// All limits of the agent's side of telemetry, with their reasons. Limits of one event are in contract.ts; those of the service:
// src/control/sessions/telemetry/limits.ts.

// ---- capture: watching targets

/** The period in which the events of one target, or of the whole session, are counted. */
export const WINDOW_MS = 1_000
/** How long a change of the categories, or a restart of Chromium, waits for the capture. On an idle machine the capture needs some ten milliseconds. */
export const CHANGE_MS = 5_000
/** Delay of the next attempt after a failure. */
export const FOLLOW_AGAIN_MS = 5_000
/**
 * How long a new target is paused for the collectors. They need some milliseconds; commands that they have sent by then are carried out before the target is
 * resumed, even if the answers come later.
 */
export const HELD_MS = 100
/** The same for targets that exist when the capture begins, and are not paused. */
export const BEGUN_MS = 1_000
/** Timeout for resuming a target. After it, the command is repeated. */
export const RESUME_MS = 5_000
export const RESUME_AGAIN_MS = 1_000
/** Timeout for attaching. */
export const ATTACH_MS = 10_000
/** Most watched targets. Others are resumed unwatched. */
export const MAX_TARGETS = 200
/** Timeout for starting a collector: some commands that Chromium answers in milliseconds; a page that hangs answers none. */
export const START_MS = 10_000
/** Timeout for ending a collector. After it, its target is left without waiting. */
export const STOP_MS = 2_000
/** Delay before a collector that could not start is started again; a new document does so earlier. */
export const BEGIN_AGAIN_MS = 5_000
/** The longest address in an event, in bytes. */
export const MAX_URL = 4096
/** Length of an address that is read; it is cut only after its secrets are masked. */
export const MAX_RAW_URL = 16 * 1024
/** Longest message of a script: clicks with a selector and a text. */
export const MAX_SAID = 8 * 1024
/** Most frames of one target. Above it, messages of new frames' scripts are ignored. */
export const MAX_FRAMES = 500
/** Documents that are prepared at once: a page can make thousands of frames in a moment, and each needs some commands. */
export const PREPARED_AT_ONCE = 8
/** Most documents that are asked at once whether they show a secret. */
export const MAX_ASKED = 100
/** Timeout for an answer of a document; one that hangs is asked again. */
export const DOCUMENT_MS = 10_000
export const DOCUMENT_AGAIN_MS = 1_000
/** Timeout for ending the scripts of a document. */
export const WORLD_STOP_MS = 1_000
/** Timeout for the check whether a secret is visible. */
export const SHOWN_MS = 500
/** Longer values of fields are not learned. */
export const MAX_PASSWORD = 256

// ---- capture: the console

/**
 * Most console output of one target that is reported in a second: lines, and errors in addition, so that many lines of a page do not hide its errors. From
 * `all` lines or `length` characters on, Chromium is told to send none for the rest of the second. Sending one costs the page some 90 µs, and reading it the
 * agent 20 µs.
 */
export const CONSOLE_A_SECOND = { lines: 200, errors: 100, all: 500, length: 4 * 1024 * 1024 }
/** Delay before logged objects of a page are released. */
export const RELEASE_MS = 1_000
/** Timeout for a page, which may hang. */
export const CONSOLE_ANSWER_MS = 30_000
/** Delay before a page that did not answer is asked again. */
export const CONSOLE_AGAIN_MS = 1_000
/** Longest text of one argument, in bytes. */
export const CONSOLE_TEXT_BYTES = 4096
/** All arguments of a call, in bytes. */
export const CONSOLE_ARGS_BYTES = 8192
export const CONSOLE_ARGS = 32
/** Frames of a stack, including its asynchronous parents. */
export const STACK_FRAMES = 20
export const STACK_PARENTS = 4
export const STACK_NAME = 256
export const STACK_URL_BYTES = 1024

// ---- capture: the network

/**
 * Requests of a target that are reported in a second: a page can make any number, and reading one, with its headers and its body, costs CPU time of the agent.
 */
export const NETWORK_A_SECOND = { requests: 1_000 }
/** Bodies that are fetched at once, for one target and for all: each has up to some megabytes on its way through the agent. */
export const BODIES_AT_ONCE = 8
export const BODIES_OF_ALL_AT_ONCE = 16
/** Answers of one target that wait for their body; further ones are reported without it. A page that loads a few hundred files at once gets all bodies. */
export const BODIES_WAITING = 256
/** Timeout for a body: a busy page answers late, and events should not be delayed for long. */
export const BODY_ANSWER_MS = 10_000
/** Bodies of all targets in a second, in bytes: reading a body blocks the agent. */
export const BODY_BYTES_A_SECOND = 16 * 1024 * 1024
/** Size of the bodies that Chromium keeps in the memory of each page, in bytes; without a limit 100 MB or more. */
export const KEPT_BODIES = 8 * 1024 * 1024
/** A longer body is not fetched: it would pass through the agent as a whole. */
export const MAX_BODY = 1024 * 1024
/** Post data up to this length comes with its request; longer post data is only reported as present. */
export const MAX_POST = 64 * 1024
/** Length of Chromium's own words: ids, types, methods. */
export const SHORT_TEXT = 64
/** Length of a text that is read before it is cut. */
export const MAX_RAW_TEXT = 4096
/** Requests of all targets that may continue in another session. */
export const MAX_MOVING = 200
/** Bytes of a body in an event: of JSON, XML and forms. */
export const STRUCTURED_BYTES = 8 * 1024
/** Of other text, in bytes. */
export const TEXT_BYTES = 4 * 1024
/** Most unfinished requests of one target. Further ones are reported, but not their answers. */
export const MAX_FLIGHTS = 2_000
/** Memory for the requests of all targets, in characters. */
export const MAX_HELD = 16 * 1024 * 1024
/** About the memory of a request in addition to its texts. */
export const FLIGHT_WEIGHT = 500
/** The API's definition of an idle network. */
export const IDLE_MS = 500
/** Length of an unknown proxy's code. */
export const PROXY_CODE = 64

// ---- capture: pages and what users do

/**
 * Events of the life of one page in a second: of its own document; and of the frames inside it, of which 500 are watched, and its timeline. A page may reload
 * its frames, and shift its layout, without end.
 */
export const PAGE_A_SECOND = { document: 100, frames: 500 }
/** A page is settled when its layout has not shifted for this time after it has loaded. */
export const SETTLED_MS = 1_000
export const MAX_ID = 64
export const MAX_TITLE = 512
export const CLICK_TEXT = 200
export const MAX_SELECTOR = 512
export const MAX_TAG = 64
export const MAX_KEY = 32
/** Scripts send longer texts than events include, so that secrets at the cut are found (in-page/interaction.js). */
export const MAX_TOLD = 1024
/** Shortest time between two pictures, for all pages. */
export const PICTURE_EVERY_MS = 2_000
/** Delay until the effect of a click or a load is visible. */
export const PICTURE_SOON_MS = 300
/** Timeout for a frame: a hidden page has none. */
export const FRAME_MS = 2_000
/** The longest side in pixels: a picture that is too large in the first size is made again in the next. */
export const PICTURE_SIDES = [960, 480] as const
/** In characters of base64, 700 KB of PNG. */
export const MAX_PICTURE = 933_000

// ---- capture: clients of CDP

/** Bytes of one connection's commands that are read in a second. Reading costs CPU time of the agent; the bytes themselves are forwarded before. */
export const COMMAND_BYTES_A_SECOND = 8 * 1024 * 1024
/** Bytes at the beginning of a message that are read to decide whether the whole of it is wanted. */
export const LOOKED_AT = 512
/** Longer messages are not read. */
export const MAX_MESSAGE = 1024 * 1024
/** Identifiers are cut to this; Chromium's have 32 characters. */
export const COMMAND_ID = 128
/** Most entries of a drag that are read: there are ten kinds. */
export const DRAG_ITEMS = 1000

// ---- buffer

/**
 * Limits on stored events. The API promises 1,024 events; after a restart, a service continues to read from here. The session's memory limit includes this
 * memory. Lengths are in characters of JSON. `pictures`: above it, the oldest pictures are removed from their events; otherwise some twenty pictures would fill
 * the buffer. `own`: reserved for events that pages cannot cause, as many as one second may have.
 */
export const KEPT = {
  events: 8_192,
  length: 16 * 1024 * 1024,
  picturesLength: 8 * 1024 * 1024,
  ownEvents: 1_024,
  ownLength: 1024 * 1024,
}
/**
 * Events of a session in a second. A page can cause any number; events above this are dropped, and the loss is reported. `own`: events that pages cannot cause,
 * such as calls, connections and crashes; these are reported whatever a page does.
 */
export const A_SECOND = { events: 4_000, length: 8 * 1024 * 1024, ownEvents: 1_000, ownLength: 1024 * 1024 }
/** Interval at which a stream gets the number of the last event that its filter has left out: the same as for comments. */
export const SKIPPED_MS = 15_000
/** Interval of signs of life. A follower that gets none for several intervals considers the agent dead. */
export const FEED_BEAT_MS = 1_000
/** After some lines, the next ones are collected for this time: each write wakes the service, and a client of CDP may make a thousand events a second. */
export const FEED_GATHER_MS = 20
/** Characters in one write; the longest event has a million. */
export const FEED_LENGTH = 256 * 1024
