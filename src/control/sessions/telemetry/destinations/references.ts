// The destination of telemetry that a browser's options name.
import type { Naming } from '../../browsers/options/look-up.ts'
import type { Destinations } from './destinations.ts'

const FIELD = 'telemetry.export.otlp.destination'

/** Puts its id in place of its name. A destination that is named exists then. */
export const destinationNaming = ({ idOf }: Pick<Destinations, 'idOf'>) =>
  async function nameDestination<T extends Naming>(given: T): Promise<T> {
    const { telemetry } = given
    const otlp = telemetry?.export?.otlp
    if (!telemetry || !otlp?.destination) return given
    const { id, name } = otlp.destination
    const found = id === undefined ? await idOf({ name: name! }, `${FIELD}.name`) : await idOf({ id }, `${FIELD}.id`)
    return { ...given, telemetry: { ...telemetry, export: { otlp: { ...otlp, destination: { id: found } } } } }
  }
