// Hosts in the names of items, for stores that have no other place for URLs.
import { asDomain } from '../match.ts'

/** People name entries and folders after sites: `web/example.com/kim`, `example.com`, `kim@example.com`. */
export const hostsIn = (path: string): string[] =>
  path
    .split('/')
    .map((part) => part.slice(part.lastIndexOf('@') + 1))
    .filter((part) => part.includes('.') && asDomain(part) !== undefined)
