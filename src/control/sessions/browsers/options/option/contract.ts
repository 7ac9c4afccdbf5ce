// The declaration of one option of browsers. From it follow the bodies of create and update, the session's answer, the stored form and the settings of the
// browser. The options themselves are in ../contract.ts.
import * as z from 'zod'
import type { Fit, Viewport } from '../../../../../agent/session/contract.ts'

/** The regions that the API knows. A service is in one of them (COB_REGION). */
export const Region = z.enum(['us-east', 'us-west', 'eu-west', 'ap-southeast'])
export type Region = z.output<typeof Region>

/** The memory sizes that the API knows, smallest first. */
export const Memory = z.enum(['1GiB', '2GiB', '4GiB', '6GiB', '8GiB', '12GiB', '16GiB'])
export type Memory = z.output<typeof Memory>

/** Properties that all sessions of a service share. A caller may only ask for the values that it gets anyway. */
export interface Place {
  region: Region
  /** The value in answers, unless a caller asked for a size. */
  memory: Memory
  /** The memory limit of an instance, in MiB. */
  memoryMb: number
  /** Which browser a headless session has. `auto`: a lean one, unless its create needs the full one. `lean`: a create that needs the full one is refused. */
  headless: 'full' | 'auto' | 'lean'
}

/** How an instance was booted, and fitted before it became a session. */
export interface Booted {
  viewport: Viewport
  /** Its page fills the screen already. */
  fullscreen: boolean
  /** It has been started for stealth already. */
  stealth: boolean
  /** The size of its X server's screen. No viewport can exceed it. */
  maxScreen: { width: number; height: number }
  /** Its browser is the headless shell, which has no display and not everything of the full browser. Absent: it is the full one. */
  lean?: boolean | undefined
}

/** The reason why a value is refused: its field in dotted form, and the problem. */
export interface Refusal {
  field: string
  problem: string
  /** The error code, if it is not a plain 400. */
  code?: 'stale_network'
}

type Schema = z.ZodType | undefined
type Output<T> = T extends z.ZodType ? z.output<T> : never

/**
 * One option. `Create` and `Update` are its schemas in these bodies, `Stored` is its form in the row, `Reply` its schema in the session's answer. A schema is
 * undefined where the option does not occur. `given` is a parsed value, undefined when the caller did not give one.
 */
export interface Option<Create extends Schema, Update extends Schema, Stored, Reply extends Schema> {
  create: Create
  update: Update
  /** Whether this value in a create needs the full browser. Absent: none does. What a lean browser becomes full for later, the agent decides (Step.needsFull). */
  needsFull?: ((given: Output<Create>) => boolean) | undefined
  /** Why this service refuses a create with this value; undefined when it does not. */
  refuseCreate?: ((given: Output<Create>, place: Place) => Refusal | undefined) | undefined
  /** Why an update to this value is refused, for a browser that was booted like `booted` and has `before` in its row; undefined when it is not. */
  refuseUpdate?: ((given: Output<Update>, booted: Pick<Booted, 'maxScreen'>, before: Stored | undefined) => Refusal | undefined) | undefined
  /** The form in the row of the value in a create, or of the default. Undefined: nothing is stored. Absent: the option is not stored. */
  store?: ((given: Output<Create>) => Stored) | undefined
  /** The form in the row after an update, from the old form. Absent: an update does not change the row. */
  restore?: ((given: Output<Update>, before: Stored | undefined) => Stored) | undefined
  /** Its field in the answer. `show` makes the value from the stored form of this option, or of the option `of`; undefined omits the field. */
  reply?: { schema: Reply; of?: string; show: (stored: Stored, place: Place) => Output<Reply> } | undefined
  /** The settings for the browser of a new session. Absent: none. */
  fit?: ((given: Output<Create>, booted: Omit<Booted, 'maxScreen' | 'lean'>) => Fit) | undefined
  /** The settings for a running browser after an update has stored `stored`. Absent: none. */
  refit?: ((given: Output<Update>, stored: Stored | undefined) => Fit) | undefined
}

/** Declares an option. Parts that are left out do not exist for it. */
export const option = <Create extends Schema = undefined, Update extends Schema = undefined, Stored = undefined, Reply extends Schema = undefined>(
  declared: Partial<Option<Create, Update, Stored, Reply>>,
): Option<Create, Update, Stored, Reply> => ({ create: undefined as Create, update: undefined as Update, ...declared })

/** Whether a value asks for nothing, in one of the forms that clients use for "none": `null`, `""`, `[]`, `{}`, `{enabled: false}`. */
const isOff = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return value === undefined || value === null || value === false || value === ''
  return Array.isArray(value) ? value.length === 0 : Object.values(value).every(isOff)
}

/** The schema of an option that is not implemented. It is refused by name unless it {@link isOff asks for nothing}, and never ignored. */
export const notBuilt = (what: string) =>
  z
    .unknown()
    .refine(isOff, `${what} not built yet in this version of Cob`)
    .transform(() => undefined)
    .optional()

/** Options by their names. The types that follow from such a list are below. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Options = Readonly<Record<string, Option<any, any, any, any>>>

type Reply<O extends Options[string]> = NonNullable<O['reply']>['schema']
type Stored<O extends Options[string]> = ReturnType<NonNullable<O['store']>>

/** The fields of the options in the body of a create, in that of an update, and in the answer. */
export type CreateShape<T extends Options> = { [K in keyof T as T[K]['create'] extends z.ZodType ? K : never]: T[K]['create'] }
export type UpdateShape<T extends Options> = { [K in keyof T as T[K]['update'] extends z.ZodType ? K : never]: T[K]['update'] }
export type ReplyShape<T extends Options> = { [K in keyof T as Reply<T[K]> extends z.ZodType ? K : never]: Reply<T[K]> }

type StoredNames<T extends Options> = { [K in keyof T]: Stored<T[K]> extends undefined ? never : K }[keyof T]
type RequiredNames<T extends Options> = { [K in StoredNames<T>]: undefined extends Stored<T[K]> ? never : K }[StoredNames<T>]
type Flat<T> = { [K in keyof T]: T[K] }

/** The options as a row has them. */
export type StoredOptions<T extends Options> = Flat<
  { [K in RequiredNames<T>]: Stored<T[K]> } & { [K in Exclude<StoredNames<T>, RequiredNames<T>>]?: Stored<T[K]> }
>

const shape = (options: Options, of: (one: Options[string]) => z.ZodType | undefined): object =>
  Object.fromEntries(Object.entries(options).flatMap(([name, one]) => (of(one) ? [[name, of(one)]] : [])))

export const createShape = <T extends Options>(options: T): CreateShape<T> => shape(options, ({ create }) => create) as CreateShape<T>
export const updateShape = <T extends Options>(options: T): UpdateShape<T> => shape(options, ({ update }) => update) as UpdateShape<T>
export const replyShape = <T extends Options>(options: T): ReplyShape<T> => shape(options, ({ reply }) => reply?.schema) as ReplyShape<T>
