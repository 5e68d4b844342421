import { test } from '@jest/globals';
import { useHoldfast } from 'holdfast-testing/jest';

import { fail } from './body.js';

const holdfast = useHoldfast();

test('fails', () => fail(holdfast));
