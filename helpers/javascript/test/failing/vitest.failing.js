import { test } from 'vitest';
import { useHoldfast } from 'holdfast-testing/vitest';

import { fail } from './body.js';

const holdfast = useHoldfast();

test('fails', () => fail(holdfast));
