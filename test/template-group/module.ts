// The template of a group: copy this folder into a wing of src/control/, rename it, and add its module to src/control/modules.ts. The rest follows from that line.
import { defineModule } from '../../src/control/module.ts'
import { profileDeleted } from '../../src/control/sessions/profiles/module.ts'
import { notes as contract } from './contract.ts'
import { noteHandlers } from './handlers.ts'
import { removeNotesOf } from './rows.ts'

export const notes = defineModule({
  name: 'notes',
  contracts: [contract],
  holdings: [{ called: 'notes', isAtWork: false, table: 'notes' }],
  open(house) {
    house.mount(contract, noteHandlers(house.db))
    house.fill(profileDeleted, (profile) => removeNotesOf(house.db, profile))
  },
})
