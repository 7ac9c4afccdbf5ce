// The options of browsers that several tools take as flat fields, and what the API is told of them.
import { z } from 'zod'
import { fault, type Fault } from '../../../../http/fault.ts'

const Pixels = z.int().min(1).max(65_535)
const Choice = z.string().min(1).max(255)

export const browserFields = {
  profile_name: Choice.describe('Name of the profile whose cookies and logins are loaded.'),
  profile_id: Choice.describe('The same, by id.'),
  extension_id: Choice.describe('Id of an extension to load.'),
  extension_name: Choice.describe('The same, by name.'),
  viewport_width: Pixels.describe('Width of the screen in pixels; together with viewport_height.'),
  viewport_height: Pixels.describe('Height of the screen in pixels; together with viewport_width.'),
  viewport_refresh_rate: z.int().min(1).describe('Pictures per second of the screen.'),
}

/** The fields by what the API calls them. */
export const AS_FIELDS = {
  'profile.id': 'profile_id',
  'profile.name': 'profile_name',
  'profile.save_changes': 'save_profile_changes',
  'extensions.0': 'extension_name',
  'extensions.0.id': 'extension_id',
  'extensions.0.name': 'extension_name',
  'viewport.width': 'viewport_width',
  'viewport.height': 'viewport_height',
  'viewport.refresh_rate': 'viewport_refresh_rate',
  'viewport.force': 'viewport_force',
  'telemetry.enabled': 'telemetry_enabled',
}

/** Two fields of which only one may be given. */
export const together = (field: string, other: string): Fault => fault.field(field, `cannot be given together with ${other}`)

interface Profile {
  profile_name?: string | undefined
  profile_id?: string | undefined
  save_profile_changes?: boolean | undefined
}

export function profileOf({ profile_name: name, profile_id: id, save_profile_changes: save }: Profile): object {
  if (name !== undefined && id !== undefined) throw together('profile_name', 'profile_id')
  if (name !== undefined || id !== undefined) return { profile: { name, id, save_changes: save } }
  if (save !== undefined) throw fault.field('save_profile_changes', 'needs profile_name or profile_id')
  return {}
}

interface Extension {
  extension_name?: string | undefined
  extension_id?: string | undefined
}

export function extensionsOf({ extension_name: name, extension_id: id }: Extension): object {
  if (name !== undefined && id !== undefined) throw together('extension_name', 'extension_id')
  return name === undefined && id === undefined ? {} : { extensions: [{ name, id }] }
}

interface Viewport {
  viewport_width?: number | undefined
  viewport_height?: number | undefined
  viewport_refresh_rate?: number | undefined
  viewport_force?: boolean | undefined
}

export function viewportOf({ viewport_width: width, viewport_height: height, viewport_refresh_rate: refresh_rate, viewport_force: force }: Viewport): object {
  if ([width, height, refresh_rate, force].every((given) => given === undefined)) return {}
  const missing = width === undefined ? 'viewport_width' : height === undefined ? 'viewport_height' : undefined
  if (missing !== undefined) throw fault.field(missing, 'is required with the other fields of the viewport')
  return { viewport: { width, height, refresh_rate, force } }
}

interface Telemetry {
  telemetry_enabled?: boolean | undefined
  telemetry_console?: boolean | undefined
  telemetry_network?: boolean | undefined
  telemetry_page?: boolean | undefined
  telemetry_interaction?: boolean | undefined
}

export function telemetryOf(given: Telemetry): object {
  const { telemetry_enabled: enabled, telemetry_console, telemetry_network, telemetry_page, telemetry_interaction } = given
  const named = Object.entries({ console: telemetry_console, network: telemetry_network, page: telemetry_page, interaction: telemetry_interaction })
  const browser = Object.fromEntries(named.flatMap(([category, isOn]) => (isOn === undefined ? [] : [[category, { enabled: isOn }]])))
  const namesSome = Object.keys(browser).length > 0
  if (enabled === undefined && !namesSome) return {}
  return { telemetry: { enabled, ...(namesSome && { browser }) } }
}
