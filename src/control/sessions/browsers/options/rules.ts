// Rules that follow from the declared options when a session is created, changed and shown. This file names no single option.
import * as z from 'zod'
import type { Fit } from '../../../../agent/session/contract.ts'
import {
  createShape,
  type Booted,
  type CreateShape,
  type Options,
  type Place,
  type Refusal,
  type ReplyShape,
  type StoredOptions,
  type UpdateShape,
} from './option/contract.ts'

/** The parsed options of a create and of an update, and those of an answer. */
type Created<T extends Options> = z.output<z.ZodObject<CreateShape<T>>>
type Updated<T extends Options> = z.output<z.ZodObject<UpdateShape<T>>>
type Shown<T extends Options> = z.output<z.ZodObject<ReplyShape<T>>>

/** One option that an update changes. */
interface Change<T extends Options> {
  name: string
  /** The changes of the row; undefined: none. */
  stored: Partial<StoredOptions<T>> | undefined
  fit: Fit
}

/** The rules that follow from a list of options. A create may leave out every option. */
export function optionRules<T extends Options>(options: T) {
  const each = Object.entries(options)
  // An option gets only its own value.
  const of = (values: object, name: string): unknown => (values as Record<string, unknown>)[name]
  const collect = (value: (option: Options[string], name: string) => unknown): Record<string, unknown> =>
    Object.fromEntries(each.map(([name, option]) => [name, value(option, name)] as const).filter(([, found]) => found !== undefined))
  const first = (refusal: (option: Options[string], name: string) => Refusal | undefined): Refusal | undefined => {
    for (const [name, option] of each) {
      const found = refusal(option, name)
      if (found) return found
    }
    return undefined
  }

  const stored = (given: Created<T>) => collect(({ store }, name) => store?.(of(given, name) as never)) as StoredOptions<T>
  const defaults = stored(z.object(createShape(options)).parse({}) as Created<T>)
  return {
    /** Why this service refuses a create; undefined when it does not. */
    refuseCreate: (given: Created<T>, place: Place) => first(({ refuseCreate }, name) => refuseCreate?.(of(given, name) as never, place)),
    /** The first of these options for which a browser has to be the full one; undefined: it may be lean. */
    needsFull: (given: Created<T>) => each.find(([name, { needsFull }]) => needsFull?.(of(given, name) as never))?.[0],
    /** Why an update is refused for a browser with this boot and these options; undefined when it is not. */
    refuseUpdate: (given: Updated<T>, row: Pick<Booted, 'maxScreen'> & StoredOptions<T>) =>
      first(({ refuseUpdate }, name) => refuseUpdate?.(of(given, name) as never, row, of(row, name) as never)),
    /** The options of a new session, as its row has them. */
    stored,
    /** The settings for the browser of a new session. */
    fit: (given: Created<T>, booted: Omit<Booted, 'maxScreen' | 'lean'>) =>
      Object.assign({}, ...each.map(([name, { fit }]) => fit?.(of(given, name) as never, booted))) as Fit,
    /** The changes that an update makes to a row with these options, in the order in which they are applied. */
    changes: (given: Updated<T>, before: StoredOptions<T>): Change<T>[] =>
      each
        .filter(([name]) => of(given, name) !== undefined)
        .map(([name, { restore, refit }]) => {
          const value = of(given, name) as never
          const after = restore?.(value, of(before, name) as never)
          return { name, stored: restore && ({ [name]: after } as Partial<StoredOptions<T>>), fit: refit?.(value, after as never) ?? {} }
        }),
    /** Whether an update changes options of a row. */
    isStored: (given: Updated<T>) => each.some(([name, { restore }]) => restore && of(given, name) !== undefined),
    /** The options in a session's answer. If the row of an earlier version lacks an option, its default is shown. */
    shown: (row: StoredOptions<T>, place: Place) =>
      collect(({ reply }, own) => {
        const name = reply?.of ?? own
        return reply?.show((Object.hasOwn(row, name) ? of(row, name) : of(defaults, name)) as never, place)
      }) as Shown<T>,
  }
}
