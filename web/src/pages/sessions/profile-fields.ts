// Form fields for the profile of a new session, and whether to save it.
import { useChoices } from '../../ui/choices.ts'
import type { Body, FieldSpec } from '../../ui/form-values.ts'

export function useProfileFields(): FieldSpec[] {
  const profiles = useChoices('listProfiles', 'None', ({ id, name }) => [id, name ?? id])
  return [
    { name: 'profile.id', label: 'Profile', kind: 'choice', options: profiles, hint: 'Cookies, storage and tabs of earlier sessions.' },
    {
      name: 'profile.save_changes',
      label: 'Save what changes into it',
      kind: 'switch',
      hint: 'When the session ends, it is a new version of the profile.',
      when: ({ 'profile.id': chosen }) => Boolean(chosen),
    },
  ]
}

/** Leaves out `save_changes: false`, because it is the service's default. */
export function withoutNo({ profile, ...body }: Body): Body {
  const { save_changes: save, ...named } = (profile ?? {}) as { id?: string; save_changes?: boolean }
  return { ...body, ...(profile !== undefined && { profile: save ? { ...named, save_changes: true } : named }) }
}
