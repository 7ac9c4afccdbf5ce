// Dashboard forms: the request body from typed text, and service errors as errors of fields.
import { describe, expect, test } from 'vitest'
import { fault } from '../src/http/fault.ts'
import { bodyOf, problemsOf, type FieldSpec } from '../web/src/ui/form-values.ts'

const FIELDS: FieldSpec[] = [
  { name: 'name', label: 'Name' },
  { name: 'size', label: 'Size', kind: 'number', isRequired: true },
  { name: 'config.host', label: 'Host', when: ({ type }) => type === 'custom' },
  { name: 'bypass_hosts', label: 'Hosts', kind: 'lines' },
  { name: 'values', label: 'Values', kind: 'pairs' },
  { name: 'payload', label: 'Payload', kind: 'json' },
  { name: 'secret', label: 'Secret', kind: 'password' },
  { name: 'isOn', label: 'On', kind: 'switch' },
  { name: 'proxy_id', label: 'Proxy', sendsEmpty: true },
]

describe('the body', () => {
  test('has each value in its form and at its place; what is empty or hidden is left out, unless empty clears it', () => {
    const values = {
      name: ' ',
      size: '3',
      type: 'custom',
      'config.host': 'a.b',
      bypass_hosts: ' x.y \n\n*.z',
      values: 'a = 1\nb=',
      payload: '[1]',
      secret: ' p ',
      isOn: 'true',
    }
    expect(bodyOf(FIELDS, values)).toEqual({
      problems: {},
      body: {
        size: 3,
        config: { host: 'a.b' },
        bypass_hosts: ['x.y', '*.z'],
        values: { a: '1', b: '' },
        payload: [1],
        secret: ' p ',
        isOn: true,
        proxy_id: '',
      },
    })
    expect(bodyOf(FIELDS, { size: '3', type: 'isp', 'config.host': 'a.b' }).body).toEqual({ size: 3, isOn: false, proxy_id: '' })
  })

  test('leaves out what is as it was at first, where to name it again would mean something', () => {
    const fields: FieldSpec[] = [{ name: 'domains', label: 'Domains', kind: 'lines', initial: 'a.b', onlyChanged: true, sendsEmpty: true }]
    expect(bodyOf(fields, { domains: 'a.b' }).body).toEqual({})
    expect(bodyOf(fields, { domains: '' }).body).toEqual({ domains: [] })
  })
})

describe('an error of the service', () => {
  const refusalOf = (problems: { field: string; problem: string }[]) => {
    const { status, message } = fault.invalid(problems)
    return problemsOf(Object.assign(new Error(message), { status }), FIELDS)
  }
  test('stands at the fields that it names, also by a part of them', () => {
    expect(
      refusalOf([
        { field: 'config.host', problem: 'must be a host name' },
        { field: 'bypass_hosts.1', problem: 'must be: a host' },
      ]),
    ).toEqual({ problems: { 'config.host': 'must be a host name.', bypass_hosts: '1: must be: a host.' }, others: false })
  })

  test('is told as a whole when it is about something else, or no refusal of a body', () => {
    expect(refusalOf([{ field: 'other', problem: 'is wrong' }])).toEqual({ problems: {}, others: true })
    expect(refusalOf([{ field: '', problem: 'is wrong' }])).toEqual({ problems: {}, others: true })
    expect(problemsOf(Object.assign(new Error('size: must be 1'), { status: 500 }), FIELDS)).toEqual({ problems: {}, others: true })
    expect(problemsOf(new Error('size: must be 1'), FIELDS)).toEqual({ problems: {}, others: true })
  })
})
