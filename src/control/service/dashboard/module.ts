// The dashboard, at `/`.
import { defineModule } from '../../module.ts'
import { serveDashboard } from './dashboard.ts'

export const dashboard = defineModule({ name: 'dashboard', open: ({ serve }) => serve((context) => serveDashboard(context)) })
