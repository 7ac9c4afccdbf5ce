// What options name and something else keeps: looked up between the parsing of a body and the storing of its options.
import type { CreateBrowser, UpdateBrowser } from '../contract.ts'

/** The options of a create or an update that name something. */
export type Naming = Pick<CreateBrowser & UpdateBrowser, 'proxy' | 'proxy_id'> & Pick<CreateBrowser | UpdateBrowser, 'network'>

/** Puts ids in place of names. What is named exists then, in this project, and may be used. @throws 400 naming the option */
export type Resolve = <T extends Naming>(project: string, given: T) => Promise<T>
