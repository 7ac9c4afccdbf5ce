// Serves the files that web/ builds: the dashboard at `/`, and the pages of other groups.
import { defineModule } from '../../module.ts'
import { serveDashboard } from './dashboard.ts'
import { keepBuilt, readBuilt } from './files.ts'
import { pagesOf, type Pages } from './pages.ts'

export const dashboard = defineModule<Pages>({
  name: 'dashboard',
  open({ serve }) {
    const built = keepBuilt(readBuilt)
    serve((context) => serveDashboard(context, built))
    return pagesOf(built)
  },
})
