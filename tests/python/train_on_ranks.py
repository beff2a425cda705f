"""Run under mpirun by test_ranks.py: an ordinary script. usage: train_on_ranks.py SOLVER WAY"""

import sys

import numpy as np

import caffe

solver = caffe.get_solver(sys.argv[1])
way = sys.argv[2]
if way == "solve":
    solver.solve()
elif way == "step":
    while solver.iter < solver.param.max_iter:
        solver.step(3)
elif way == "callback":
    gradients = []
    solver.add_callback(lambda: None, lambda: gradients.append(float(solver.net.params["ip"][0].diff.sum())))
    solver.solve()
elif way == "update":
    for _ in range(4):
        solver.net.clear_param_diffs()
        solver.net.forward()
        solver.net.backward()
        solver.apply_update()
elif way == "raise":
    solver.step(2)
    if caffe.rank() == 1:
        raise KeyError("rank 1 has had enough")
    solver.solve()
weights = np.concatenate([b.data.ravel() for blobs in solver.net.params.values() for b in blobs])
extra = " ".join("%r" % g for g in gradients) if way == "callback" else ""
sys.stdout.write("rank %d of %d: %s %s\n" % (caffe.rank(), caffe.size(), hash(weights.tobytes()), extra))
