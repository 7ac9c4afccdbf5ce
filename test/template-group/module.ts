// The template of a group. Copy this folder into a wing of src/control/, rename it, and add its module to src/control/modules.ts. That line connects everything else.
import { defineModule } from '../../src/control/module.ts'
import { profileDeleted } from '../../src/control/sessions/profiles/module.ts'
import { notes as contract } from './contract.ts'
import { noteHandlers } from './handlers.ts'
import { Notes } from './notes.ts'
import { removeNotesOf } from './rows.ts'

export const notes = defineModule({
  name: 'notes',
  contracts: [contract],
  holdings: [{ called: 'notes', isAtWork: false, table: 'notes' }],
  open(house) {
    house.mount(contract, noteHandlers(new Notes(house.db)))
    house.fill(profileDeleted, (profile) => removeNotesOf(house.db, profile))
  },
})
