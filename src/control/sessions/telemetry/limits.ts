// All limits of the service's side of telemetry. Those of the agent's side: src/agent/telemetry/limits.ts; of one event: its contract.
import { MAX_EVENT, MAX_SCREENSHOT_EVENT } from '../../../agent/telemetry/contract.ts'

const [KIB, MIB] = [1024, 1024 * 1024]

// ---- follow: one session

/** Wait for an agent to begin its answer. */
export const OPEN_MS = 10_000
/** An agent that says nothing for so long is gone: it sends something every second. */
export const SILENCE_MS = 15_000
/** Wait between two attempts to reach an agent: doubled up to the last. */
export const RETRY_MS = 250
export const LAST_RETRY_MS = 10_000
/** How often it is looked whether a session that sleeps, or is not here, can be read. */
export const ABSENT_MS = 1_000
/** One line of a feed: the longest event, in an envelope. */
export const MAX_LINE = MAX_SCREENSHOT_EVENT + 4 * KIB
/** Values of JSON in the lines that come at once: one for eight bytes. Each takes memory of its own. */
export const MAX_VALUES = (MAX_LINE + 256 * KIB) / 8
/** What an event costs besides its bytes, in bytes: its parsing, checking and packing. */
export const EVENT_COST = KIB
/**
 * What is read of a session: at first as much as its agent tells of in some seconds; then its buffer keeps what comes for some more. One that was taken over must not make
 * the service busy.
 */
export const SESSION_RATE = { perSecond: 4 * MIB, atOnce: 48 * MIB }
/** What is read of all sessions together: what comes of many at once waits in their agents. */
export const TOTAL_RATE = { perSecond: 40 * MIB, atOnce: 144 * MIB }
/** A session of which nothing more is stored is read so many times more slowly. */
export const FULL_FACTOR = 64
/** How far the clock of another machine may be ahead of ours, in microseconds. An event of tomorrow would be kept for a day longer. */
export const MAX_AHEAD_US = 60_000_000
/** How old the first event of a session may be, in microseconds. One of the past would be removed too early, or belong to a caller before. */
export const MAX_BEFORE_US = 3_600_000_000
/** Levels of what an event has: what is made of it is made by functions that call themselves. */
export const MAX_DEPTH = 32
/** An event without a picture, in characters: no longer than the agent makes it, with some room for numbers and names that are written differently. */
export const MAX_LENGTH = MAX_EVENT + KIB
/** Of what is easily compressed so many times its limit is stored: all of it is read again when it is listed or exported. */
export const RAW_TIMES = 8
/** The most that one gap counts in the figures: its numbers are the agent's. */
export const MAX_COUNTED = 100_000

// ---- follow: which sessions

/** How often a replica looks for sessions whose telemetry others have changed. */
export const LOOK_MS = 1_000
/** How often it is looked whether the archive of a session that has reached its limit was deleted. */
export const RECOUNT_MS = 5_000
/** Limit on the end of a session: its rest is read and stored. */
export const END_MS = 10_000
/** Of that, for closing the agent's buffer and for reading the rest. */
export const REST_MS = 3_000

// ---- store

/** How long the first event waits for others. With the statement, an event is stored within half a second. */
export const GATHER_MS = 250
/** Wait after a statement failed: doubled up to the last. */
export const STORE_RETRY_MS = 500
export const LAST_STORE_RETRY_MS = 8_000
/** One statement, in bytes of its runs. Each run counts at least so many: a statement has room for some thousands. */
export const STATEMENT_BYTES = 8 * MIB
export const LEAST_RUN_BYTES = 16 * KIB
/** What may wait in memory, of one session and of all: the database may be away. Then no more is read, and the agents keep the last events. */
export const SESSION_WAITING_BYTES = 2 * MIB
export const TOTAL_WAITING_BYTES = 64 * MIB
/** A run of this many bytes, before they are compressed, is stored by itself. */
export const RUN_BYTES = 256 * KIB
/** The same for one that is merged of several. A reader has one of them in memory. */
export const MERGED_BYTES = 2 * MIB
/** What a stored run may become in memory: the last event of one may be a long one. */
export const MAX_RUN_BYTES = 8 * MIB
/** Levels of zstd: of a first run, and of one that is written for good, which takes 25 ms. */
export const FAST_LEVEL = 3
export const SMALL_LEVEL = 9
/** A merged run with fewer bytes stays in its row: an object of its own costs more than that. */
export const OBJECT_BYTES = 32 * KIB
export const MAX_OBJECT_BYTES = 16 * MIB
/** A live session with more runs than this has them merged. */
export const MANY_RUNS = 256
/** Runs and sessions of one query of the merging. */
export const MERGE_RUNS_AT_ONCE = 32
export const MERGE_SESSIONS_AT_ONCE = 100
/** How often it is looked for sessions to merge. */
export const MERGE_MS = 2_000
/** One that could not be merged is tried again after this. */
export const MERGE_FAILED_MS = 3600_000
/** Rows of one statement of the removal of old telemetry. */
export const REMOVED_AT_ONCE = 500

// ---- read

/** How far a reader looks back that says nothing. */
export const LOOKBACK_MS = 5 * 60_000
/** How long a reader waits for what has just come. */
export const FLUSH_MS = 2_000
/** Runs per query. Those in rows have at most some 250 KB each as a rule, and 1 MB with a screenshot. */
export const READ_RUNS_AT_ONCE = 4
/** Characters of one page: a hundred screenshots would be a hundred megabytes. */
export const PAGE_LENGTH = 4 * MIB
/** Sessions of one round of a deletion by age. */
export const DELETED_AT_ONCE = 100
/** HAR files that are made at once: each may hold some tens of megabytes. And how long another one waits for its turn. */
export const HARS_AT_ONCE = 4
export const HAR_WAIT_MS = 30_000
/** Entries that wait for an answer, or behind one that does: entries are in the order of their requests. The first of more is written without its answer. */
export const HAR_WAITING = 2_000
export const HAR_WAITING_LENGTH = 32 * MIB
/** Pages of a HAR are written last, so all are held. Requests of further ones belong to none. */
export const HAR_PAGES = 5_000
/** Characters of an address that is the title of a page, and of the names of requests and targets, which are held for as long as these may be answered. */
export const HAR_TITLE = 2_048
export const HAR_KEY = 200

// ---- read: exports

/** One request. A record that is larger goes alone. */
export const BATCH_RECORDS = 512
export const BATCH_BYTES = MIB
/** Sessions that are exported at the same time: to all destinations, and to one. Each holds a batch, and a run of the archive. */
export const EXPORTS_AT_ONCE = 32
export const EXPORTS_AT_ONCE_EACH = 4
/** Sessions of one destination that are found with one look. They have their turns one after the other, without another look. */
export const EXPORTS_FOUND = 256
/** Requests for one session before others have their turn. */
export const BATCHES_IN_TURN = 16
/** Time between two looks for what is to be delivered, and after a first failure. */
export const EXPORT_MS = 1_000
/** Longest time between two attempts of a destination that fails. Short, so that it soon goes on when it is well. */
export const MOST_BACKOFF_MS = 60_000
/** How often what is behind is given up, what is over is noted, and what has arrived is removed. */
export const UPKEEP_MS = 5_000
/** After the end of a session, its last events may still be on their way into the archive. */
export const OVER_MS = 60_000
/** Exports and addresses of which something is remembered from one turn to the next. */
export const MOST_REMEMBERED = 2_000
/** An address that takes no traces is asked again after this time. */
export const NO_TRACES_MS = 10 * 60_000
/**
 * How long an address that takes log records may fail to take spans. After this time its spans are given up, and the log records go on without them. A restart of
 * its traces pipeline is shorter.
 */
export const SPANS_WAIT_MS = 2 * 60_000
/** After this time without another one, a failure is forgotten. Longer than an address may ask us to wait. */
export const SPANS_FORGET_MS = 30 * 60_000
/** One request with its answer; how much of the answer is read; the longest wait that it may ask for. */
export const SEND_MS = 10_000
export const MAX_ANSWER = 64 * KIB
export const MAX_RETRY_AFTER_MS = 10 * 60_000
/** One record: its attributes, each text, all of them, its body, entries of a list, levels. What is above them is left out, and counted in it. */
export const RECORD_ATTRIBUTES = 128
export const RECORD_TEXT = 8 * KIB
export const RECORD_LENGTH = 48 * KIB
export const RECORD_BODY = KIB
export const RECORD_ITEMS = 64
export const RECORD_DEPTH = 5
/** Navigations of which the load may still come, or be sent again. */
export const MOST_NAVIGATIONS = 64
